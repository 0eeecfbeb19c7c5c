"""Damage the metadata log, the snapshot or the records of an Apache Kafka directory, and adopt what they say.

    .venv/bin/python -m campaigns.adoption.damage --count 300000 --seed 1

Each case changes, removes or adds some bytes of a log or a snapshot, or of records inside of a log whose checksums are
right. Reading them and taking what they say may end with an error of one line only. A finding prints the case's seed
and ends with status 1.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from campaigns.adoption.kraft_files import (
    LEADER_CHANGE,
    batch,
    control,
    snapshot,
    some_of_everything,
    values_batch,
    write,
)
from campaigns.command_line import campaign_parser, report
from kwire.base.config import KafkaConfig
from kwire.base.doors import Files
from kwire.cluster.kraft.metadata import MetadataLogError
from kwire.cluster.kraft.metadata_log import METADATA_DIRECTORY, read_metadata
from kwire.cluster.kraft.records import encode_metadata_record
from kwire.server.adoption.entries import take
from kwire.server.errors import StartError

LOG = control(0, LEADER_CHANGE) + b"".join(batch(1 + at, each) for at, each in enumerate(some_of_everything()))
SNAPSHOT = snapshot(*some_of_everything())
VALUES = [encode_metadata_record(each) for each in some_of_everything()]


class Summary(NamedTuple):
    """How many cases there were, how many were refused, and what was wrong."""

    cases: int
    refused: int
    findings: list[str]


def run_campaign(directory: Path, count: int, seed: int) -> Summary:
    """Run so many cases in a directory."""
    refused, findings = 0, []
    config = KafkaConfig({"node.id": "1"})
    for case in range(count):
        rng = random.Random(seed * 1_000_000_007 + case)
        for file in (directory / METADATA_DIRECTORY).glob("*"):
            file.unlink()
        write(directory, **_files(rng))
        try:
            metadata = read_metadata(Files(), str(directory))
            take(metadata, config, {"orders": None}, with_security=True)
        except (MetadataLogError, StartError) as error:
            refused += 1
            if "\n" in str(error):
                findings.append(f"case {case}: {error!s:.200}")
        except Exception as error:
            findings.append(f"case {case}: {type(error).__name__}: {error}")
    return Summary(count, refused, findings)


def _files(rng: random.Random) -> dict[str, bytes]:
    kind = rng.randrange(3)
    if kind == 0:
        return {"log_0": _damaged(rng, LOG)}
    if kind == 1:
        return {"log_0": LOG, "snapshot_3": _damaged(rng, SNAPSHOT)}
    return {"log_0": values_batch(0, [_damaged(rng, each) if rng.random() < 0.3 else each for each in VALUES])}


def _damaged(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed) + 1)
        changed[at : at + rng.randint(0, 20)] = rng.randbytes(rng.randint(0, 20))
    return bytes(changed)


def main() -> int:
    """The command line; 1 if there are findings."""
    parser = campaign_parser("adoption.damage", __doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        summary = run_campaign(Path(directory), options.count, options.seed)
    counts = {"cases": summary.cases, "refused": summary.refused}
    return report({"campaign": "adoption.damage", "seed": options.seed}, started, (counts, summary.findings))


if __name__ == "__main__":
    sys.exit(main())
