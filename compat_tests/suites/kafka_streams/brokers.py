"""The brokers of one test class: a program that the class's JVM starts (`java/KafkaClusterTestKit.java`).

It reads a line of JSON, ``{"properties": {...}, "brokers": {"ID": {...}}}``, starts these kwire brokers in a new folder
below its argument, writes their addresses in a line, and ends them when its standard input ends.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.processes.brokers import KwireBroker

DEFAULTS = {"group.initial.rebalance.delay.ms": "0", "default.replication.factor": "1", "num.partitions": "1"}
"""Kafka's own defaults, in place of the harness's settings."""


def brokers(properties: Mapping[str, str], single: Mapping[str, Mapping[str, str]], home: Path) -> list[KwireBroker]:
    """The brokers, not started yet. ``single``: the properties of each broker by its id."""
    shared = {**DEFAULTS, **properties, "kwire.metadata.dir": str(home / "metadata")}
    return [
        KwireBroker(home / f"broker-{node_id}", {**shared, **own, "node.id": node_id})
        for node_id, own in single.items()
    ]


def main() -> None:
    """Run until standard input ends."""
    home = Path(tempfile.mkdtemp(prefix="brokers-", dir=sys.argv[1]))
    asked = json.loads(sys.stdin.readline())
    started = brokers(asked["properties"], asked["brokers"], home)
    try:
        for broker in started:
            broker.start()
        print(",".join(broker.bootstrap for broker in started), flush=True)
        sys.stdin.read()
    finally:
        for broker in started:
            broker.kill()


if __name__ == "__main__":
    main()
