"""Kill an archiver and its broker with SIGKILL, again and again: the table equals the topic, nothing is there twice.

    .venv/bin/python -m campaigns.archive.kills --to delta --count 1000000 --kills 50 --seed 1

While a topic is written (idempotently; with tombstones, headers, and transactions of which some are aborted), ``kwire
archive`` follows it. In each round the archiver and the broker are killed, each at a random moment, and started again.
Then an archiver reads to the end, and the table is compared with what a consumer gets, record by record. ``kwire
restore`` writes the table to another topic, and is killed with the broker as well; that topic is compared with the
first one. A line of JSON says what happened; a difference, or a traceback of the command, ends it with status 1.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from campaigns.archive.topics import (
    PARTITIONS,
    Writer,
    commits_of_table,
    consumed,
    digest,
    files_of_table,
    rows_of_table,
    transaction,
)
from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker

_RESTORE_KILLS: Final = 5
_ROUND_S: Final = 3.0
_COMMIT_RECORDS: Final = 3000
_AT_WORK: Final = 0.7
"""How often an archiver is killed when it writes, and not at any moment, for example while it starts."""
_AT_WORK_S: Final = 0.5
_START_S: Final = 60.0


class CampaignFailed(Exception):
    """What was lost, is there twice, or ended with a traceback."""


class Command:
    """A ``kwire`` command that is killed and started again."""

    def __init__(self, errors: Path, *words: str) -> None:
        self._words = [sys.executable, "-m", "kwire", *words]
        self._errors = errors
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            with self._errors.open("ab") as errors:
                self._process = subprocess.Popen(self._words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)

    def kill(self) -> None:
        """Kill it; a kill counts if it ran."""
        if self._process is not None:
            self.kills += self._process.poll() is None
            self._process.kill()
            self._process.wait()

    def finish(self, attempts: int = 5, *, or_says: str | None = None) -> None:
        """Run it to its end with status 0, or until it has said something; it may fail before, as the broker was just
        started."""
        for _ in range(attempts):
            self.start()
            assert self._process is not None
            if self._process.wait() == 0 or (or_says is not None and or_says in self._errors.read_text()):
                return
        raise CampaignFailed(f"{' '.join(self._words)}: {self._errors.read_text()[-2000:]}")

    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def has_ended(self) -> bool:
        """Whether it has come to an end with status 0."""
        return self._process is not None and self._process.poll() == 0

    def check(self) -> None:
        """`CampaignFailed` if it has printed a traceback."""
        text = self._errors.read_text()
        if "Traceback" in text:
            raise CampaignFailed(text[-3000:])


def run_campaign(
    home: Path, kind: str, *, count: int, kills: int, seed: int, broker_kind: str = "kwire", round_s: float = _ROUND_S
) -> dict[str, object]:
    """One run; what happened. ``round_s``: in which both are killed. `CampaignFailed`."""
    chance = random.Random(seed)
    started_s = time.monotonic()
    broker = make_broker(broker_kind, home / "broker")
    broker.start()
    table, topic = home / "table", "orders"
    _kwire("topic", "create", topic, "--partitions", str(PARTITIONS), "-b", broker.bootstrap)
    try:
        writer = Writer(broker.bootstrap, topic, count, count / (kills * round_s + 1), seed)
        words = ("archive", topic, "--to", kind, "--path", str(table), "-b", broker.bootstrap)
        follower = Command(home / "archive.err", *words, "--interval", "0.05", "--commit-records", str(_COMMIT_RECORDS))
        broker_kills = _kill_both(broker, follower, kills, chance, topic, round_s, table)
        follower.kill()
        commits = commits_of_table(kind, table)
        writer.finish()
        if writer.failures:
            raise CampaignFailed(f"the writer: {writer.failures[0]}")
        Command(home / "archive.err", *words, "--until-end").finish()
        follower.check()
        first = consumed(broker.bootstrap, topic)
        rows = rows_of_table(kind, table, topic)
        if digest(rows, offsets=True) != digest(first, offsets=True):
            raise CampaignFailed(f"{kind}: the topic has {len(first)} records, the table {len(rows)}; they differ")
        restore_kills = _restore(broker, home, table, chance)
        back = consumed(broker.bootstrap, "back")
        if digest(back, offsets=False) != digest(first, offsets=False):
            raise CampaignFailed(f"{kind}: the topic has {len(first)} records, the restored {len(back)}; they differ")
    finally:
        broker.kill()
    return {
        "to": kind,
        "records": len(first),
        "archiver_kills": follower.kills,
        "broker_kills": broker_kills,
        "restore_kills": restore_kills,
        "commits_among_kills": commits,
        "seconds": round(time.monotonic() - started_s),
    }


def _kill_both(
    broker: Broker, follower: Command, kills: int, chance: random.Random, topic: str, round_s: float, table: Path
) -> int:
    """Rounds in which both are killed; how often the broker was."""
    broker_kills = 0
    while broker_kills < kills or follower.kills < kills:
        before = files_of_table(table)
        follower.start()
        moments = sorted((chance.uniform(0, round_s), each) for each in ("broker", "archiver"))
        begun_s = time.monotonic()
        if chance.random() < 0.5:
            name = f"campaign-{broker_kills}"
            transaction(broker.bootstrap, topic, name, commits=chance.random() < 0.5)
        for moment_s, which in moments:
            time.sleep(max(0.0, begun_s + moment_s - time.monotonic()))
            if which == "archiver":
                if chance.random() < _AT_WORK:
                    _await_work(follower, table, before)
                    time.sleep(chance.uniform(0, _AT_WORK_S))
                follower.kill()
            else:
                broker.kill()
                broker.start()
                broker_kills += 1
    return broker_kills


def _await_work(follower: Command, table: Path, before: int) -> None:
    """Return when an archiver has begun to write, however busy the machine is, or has ended."""
    begun_s = time.monotonic()
    while files_of_table(table) == before and follower.is_running() and time.monotonic() < begun_s + _START_S:
        time.sleep(0.01)


def _restore(broker: Broker, home: Path, table: Path, chance: random.Random) -> int:
    """Restore into another topic, killed a few times, with the broker as well."""
    words = ("restore", str(table), "--topic", "back", "-b", broker.bootstrap)
    command = Command(home / "restore.err", *words)
    for _ in range(_RESTORE_KILLS):
        command.start()
        time.sleep(chance.uniform(0.3, 4))
        if command.has_ended():
            break
        command.kill()
        if chance.random() < 0.5:
            broker.kill()
            broker.start()
    if not command.has_ended():
        # One that is killed after its last request and before its end is refused when it is repeated; whether all
        # records are there is compared then as ever.
        command.finish(or_says="topic back has records")
    command.check()
    return command.kills


def _kwire(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "kwire", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Run it once for each format that was named."""
    parser = campaign_parser("archive.kills", __doc__)
    parser.add_argument("--to", action="append", choices=("parquet", "delta", "iceberg"))
    parser.add_argument("--count", type=int, default=1_000_000, help="records (default: 1000000)")
    parser.add_argument("--kills", type=int, default=50, help="how often each of both is killed (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    text = f"how long a round is in which both are killed (default: {_ROUND_S})"
    parser.add_argument("--round-seconds", type=float, default=_ROUND_S, help=text)
    arguments = parser.parse_args()
    for kind in arguments.to or ("parquet", "delta", "iceberg"):
        with tempfile.TemporaryDirectory(prefix="kwire-archive-") as home:
            try:
                summary = run_campaign(
                    Path(home),
                    kind,
                    count=arguments.count,
                    kills=arguments.kills,
                    seed=arguments.seed,
                    broker_kind=arguments.broker,
                    round_s=arguments.round_seconds,
                )
            except CampaignFailed as error:
                print(f"{kind}: {error}", file=sys.stderr)
                return 1
        print(json.dumps(summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
