"""The brokers of one test after the other: a program that the JVM of the tests starts (`java/Launcher.java`).

It reads requests from standard input, a line of JSON each, and answers each with a line of JSON, ``{"error": TEXT}`` if
it could not be carried out:

* ``{"do": "start", "brokers": {ID: PROPERTIES}, "listener": NAME, "disks": N}``: new brokers; the answer has their
  ``ports`` and their ``directories`` of data.
* ``{"do": "end", "broker": ID}`` and ``{"do": "begin", "broker": ID}``: stop one of them in order, start it again.
* ``{"do": "metrics"}``: the answer has the ``counts`` of their meters, each the sum of all brokers, by Kafka's names.
* ``{"do": "stop"}``: kill them all and remove their data.

The brokers are in a new folder below the program's argument; with a second argument, the folder stays.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.processes.brokers import START_TIMEOUT_S, BrokerFailed, KwireBroker, wait_until

_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "3000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
}
"""Kafka's defaults where kwire has others, and the buffer size that Kafka's own brokers have in these tests."""
DUMP_TIMEOUT_S = 10.0
_DUMPED = "dump complete"


class Launcher:
    """The brokers of the current test by id. ``folder``: where their data go; ``keep``: whether they stay there."""

    def __init__(self, folder: Path, keep: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._home = folder
        self._brokers: dict[str, KwireBroker] = {}
        self._actions: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "start": self._start,
            "end": self._end,
            "begin": self._begin,
            "metrics": self._metrics,
            "stop": self._stop,
        }

    def carry_out(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request; returns its answer."""
        try:
            return self._actions[request["do"]](request)
        except (BrokerFailed, TimeoutError) as error:
            return {"error": str(error)}

    def kill(self) -> None:
        """Kill the brokers of the current test and remove their data."""
        for broker in self._brokers.values():
            broker.kill()
        if self._brokers and not self._keep:
            shutil.rmtree(self._home, ignore_errors=True)
        self._brokers = {}

    def _start(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.kill()
        self._home = Path(tempfile.mkdtemp(prefix="test-", dir=self._folder))
        for node_id, properties in request["brokers"].items():
            self._brokers[node_id] = _broker(self._home, node_id, properties, request["listener"], request["disks"])
        for broker in self._brokers.values():
            broker.begin()
        for broker in self._brokers.values():
            _await_ready(broker)
        return {
            "ports": {node_id: broker.port for node_id, broker in self._brokers.items()},
            "directories": {node_id: broker.settings["log.dirs"] for node_id, broker in self._brokers.items()},
        }

    def _end(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"status": self._brokers[request["broker"]].stop()}

    def _begin(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._brokers[request["broker"]].start()
        return {}

    def _metrics(self, request: Mapping[str, Any]) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        for broker in self._brokers.values():
            if broker.is_running():
                counts.update(_counts(broker))
        return {"counts": counts}

    def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.kill()
        return {}


def _broker(home: Path, node_id: str, properties: Mapping[str, str], listener: str, disks: int) -> KwireBroker:
    """A broker that has not been started. What ``properties`` does not say has Kafka's default."""
    folder = home / f"broker-{node_id}"
    broker = KwireBroker(folder)
    broker.host = "localhost"
    broker.choose_ports()
    broker.settings = {
        **_DEFAULTS,
        "log.dirs": ",".join(str(folder / f"data-{disk}") for disk in range(disks)),
        "kwire.metadata.dir": str(home / "metadata"),
        **properties,
        "node.id": node_id,
        "listeners": f"{listener}://localhost:{broker.port}",
    }
    return broker


def _counts(broker: KwireBroker) -> dict[str, int]:
    """The counts of a broker's meters, from the diagnostic dump in its log."""
    before = len(broker.log_text())
    os.kill(broker.pid, signal.SIGUSR1)
    wait_until(lambda: _DUMPED in broker.log_text()[before:], DUMP_TIMEOUT_S, "the diagnostic dump")
    lines = [json.loads(line) for line in broker.log_text()[before:].splitlines()]
    metrics = {line["name"]: line["value"] for line in lines if line["event"] == "metric"}
    return {name: value["Count"] for name, value in metrics.items() if isinstance(value, dict) and "Count" in value}


def _await_ready(broker: KwireBroker) -> None:
    def ready() -> bool:
        if not broker.is_running():
            raise BrokerFailed(f"kwire did not start: {broker.log_text()[-1000:]}")
        return broker.is_ready()

    wait_until(ready, START_TIMEOUT_S, "the ready line")


def main() -> None:
    """Run until standard input ends."""
    launcher = Launcher(Path(sys.argv[1]), keep=len(sys.argv) > 2)
    try:
        for line in sys.stdin:
            print(json.dumps(launcher.carry_out(json.loads(line))), flush=True)
    finally:
        launcher.kill()


if __name__ == "__main__":
    main()
