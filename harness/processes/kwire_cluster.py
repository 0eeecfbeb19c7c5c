"""Three kwire brokers on one host, as processes that a test stops, kills and starts one by one.

`kwire start --brokers 3` makes the same cluster (`compat_tests/cluster/test_brokers.py`); here each broker is a
`KwireBroker` of its own, on a metadata store that they share, so that one may run other code or with other properties
than the rest. What lives elsewhere: the clients that work meanwhile (`compat_tests/cluster/rolling/load.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.processes.brokers import KwireBroker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.metadata_request import MetadataRequest

SETTLE_S = 60.0
REPLICATED: dict[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KwireCluster:
    """The brokers by id. ``sources``: the directory of a broker's code, if it is not this repository. ``store``: the
    properties of the metadata store, by default an embedded one."""

    kind = "kwire"

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        count: int = 3,
        sources: Mapping[int, Path] | None = None,
        store: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.store = dict(store or {"kwire.metadata.dir": str(home / "metadata")})
        self.brokers: dict[int, KwireBroker] = {}
        for node_id in range(1, count + 1):
            own = {"node.id": str(node_id), **self.store}
            broker = KwireBroker(home / f"broker-{node_id}", {**REPLICATED, **own, **(settings or {})})
            broker.source = (sources or {}).get(node_id)
            self.brokers[node_id] = broker

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers that have been started, separated by commas."""
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.port)

    def start(self) -> None:
        """Start the brokers that do not run; return when all replicas are in sync."""
        for broker in self.brokers.values():
            if not broker.is_running():
                broker.start()
        self.wait_until_well()

    def stop(self) -> None:
        """Stop one after the other; each hands over its partitions first."""
        for broker in self.brokers.values():
            assert broker.stop() == 0, broker.log_text()[-3000:]

    def kill(self) -> None:
        """SIGKILL all at once."""
        for broker in self.brokers.values():
            broker.kill()

    def restart(self, node_id: int, source: Path | None = None) -> None:
        """SIGTERM, start again (with the code in ``source``), and wait until nothing is under-replicated."""
        broker = self.brokers[node_id]
        assert broker.stop() == 0, broker.log_text()[-3000:]
        broker.source = source
        broker.start()
        self.wait_until_well()

    def roll(self) -> None:
        """A rolling restart."""
        for node_id in self.brokers:
            self.restart(node_id)

    def kill_busiest(self) -> int:
        """SIGKILL the broker that leads most partitions; return its id."""
        ((node_id, _),) = self.leads().most_common(1)
        self.brokers[node_id].kill()
        return node_id

    def metadata(self, node_id: int | None = None) -> Any:
        """The Metadata response of a broker, by default of any that runs."""
        return _metadata_of(self._running()[0] if node_id is None else self.brokers[node_id])

    def _running(self) -> list[KwireBroker]:
        return [broker for broker in self.brokers.values() if broker.is_running()]

    def leads(self) -> Counter[int]:
        """How many partitions each broker leads."""
        topics = self.metadata().topics
        return Counter(partition.leader_id for topic in topics for partition in topic.partitions)

    def wait_until_well(self) -> None:
        """Wait until every broker shows that all are there, every partition has a leader, and all replicas are in
        sync."""
        wait_until(self._is_well, SETTLE_S, "the cluster is whole and in sync", 0.1)

    def _is_well(self) -> bool:
        try:
            shown = [_metadata_of(broker) for broker in self._running()]
        except OSError:
            return False
        topics = {frozenset(topic.name for topic in metadata.topics) for metadata in shown}
        return len(topics) == 1 and all(
            len(metadata.brokers) == len(self.brokers) and _is_in_sync(metadata) for metadata in shown
        )


def _metadata_of(broker: KwireBroker) -> Any:
    with WireClient(broker.bootstrap) as client:
        return client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)


def _is_in_sync(metadata: Any) -> bool:
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    return all(each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes) for each in partitions)
