"""Plant faults in the copy of a topic and let ``kwire audit`` find them: every one, and no other.

    python -m campaigns.pipelines.planted_faults --records 10000000 --each 1

A broker of kwire is started in a temporary directory. Small records (26 bytes) are written to a topic and, with records
lost, doubled, changed by a byte and swapped with the next one, to another. Then the command compares both; its report
must name the planted records and nothing else. Printed are times, and the memory of the command's largest process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

from campaigns.command_line import campaign_parser
from harness.auditing.planted_faults import KINDS, Fault, Planted
from kwire.testing import KwireProcess
from kwire.testing.topics import create_topic

_WAIT_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 if the audit was right."""
    parser = campaign_parser("pipelines.planted_faults", __doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--each", type=int, default=1, help="faults of each kind")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--keys", type=int, default=1000, help="keys in each partition; 0: records have none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=1024, help="MB for the audit")
    options = parser.parse_args(arguments)
    planted = Planted(options.records, options.each, options.partitions, options.keys, seed=options.seed)
    with KwireProcess() as broker:
        return run(broker.bootstrap_servers, planted, options.memory)


def run(bootstrap: str, planted: Planted, memory_mb: int) -> int:
    """Write the topics, audit them, and compare what was found with what was planted."""
    for name in ("source", "copy"):
        create_topic(bootstrap, name, planted.partitions, {"retention.ms": "-1"}, _WAIT_S)
    started_s = time.monotonic()
    planted.write(bootstrap, "source", "copy")
    written_s = time.monotonic()
    faults = planted.faults()
    shown = str(planted.each)
    command = [sys.executable, "-m", "kwire", "audit", "source", "copy", "-b", bootstrap, "-o", "json"]
    done = subprocess.run(
        [*command, "--examples", shown, "--memory", str(memory_mb)], stdout=subprocess.PIPE, text=True, check=False
    )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 1:
        print(f"exit status {done.returncode}, and 1 was expected")
        return 1
    (row,) = json.loads(done.stdout)
    wrong = differences(row, faults, planted)
    processor_s = usage.ru_utime + usage.ru_stime
    print(
        f"{planted.records:,} records, {len(faults)} faults planted: found {row['faults']}; written in"
        f" {written_s - started_s:.0f} s, audited in {row['seconds']:.0f} s with {processor_s:.0f} s of the processor;"
        f" largest process {usage.ru_maxrss // 1024} MiB"
    )
    for each in wrong:
        print(f"WRONG: {each}")
    return int(bool(wrong))


def differences(row: dict[str, Any], faults: list[Fault], planted: Planted) -> list[str]:
    """What the report says differently from what was planted."""
    wanted = {(each.kind, f"{each.partition}:{each.offset + (each.kind == 'reordered'):012}") for each in faults}
    found = {(each["kind"], (each["source"] or each["copy"])["value"]) for each in row["examples"]}
    wrong = [f"{kind} {value} was planted and not found" for kind, value in sorted(wanted - found)]
    wrong += [f"{kind} {value} was found and not planted" for kind, value in sorted(found - wanted)]
    if row["faults"] != dict.fromkeys(sorted(KINDS), planted.each):
        wrong.append(f"the counts are {row['faults']}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
