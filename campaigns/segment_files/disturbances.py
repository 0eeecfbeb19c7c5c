"""What happens to brokers and their files while these are read."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from campaigns.segment_files.verdict import Row
from campaigns.segment_files.witness import Partition, Witness
from campaigns.segment_files.writers import AGAIN, COMPACTED, CONFIGS, PARTITIONS, PLAIN, TRANSACTIONS, fill
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.kwire_cluster import KwireCluster
from harness.wire_client import WireClient
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "20000",
    "default.replication.factor": "2",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
}
_KEPT_BYTES: Final = 60_000
_KEPT_RECORDS: Final = 1500
_WAIT_S: Final = 60.0
_DONE_BEFORE: Final = (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART)


class Disturbances:
    """Two brokers, and what may happen to them. ``lives``: what the topic that is made again had each time, by
    partition; ``cut``: below which offsets files must show nothing any more."""

    def __init__(self, home: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = KwireCluster(home, SETTINGS, count=2)
        self.lives: list[dict[int, list[Row]]] = []
        self.cut: dict[Partition, int] = {}
        self.above: Callable[[int, Witness], None] = lambda *_: None
        """Called with a leader's id while its log is ahead of the high watermark."""
        self._admin: Any = None
        self.witness: Witness | None = None

    def start(self) -> None:
        """Start the brokers and make the topics."""
        self.cluster.start()
        self._admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        self._create(PLAIN, COMPACTED, TRANSACTIONS)
        self._make_again()

    def names(self) -> list[str]:
        """All of them, the more likely ones several times."""
        return [
            "nothing",
            *["retention"] * 3,
            *["deletion"] * 2,
            *["crash"] * 3,
            "stop",
            *["torn_tail"] * 2,
            *["truncation"] * 3,
            *["lag"] * 2,
            *["topic_made_again"] * 3,
        ]

    def happen(self, name: str, node: int) -> None:
        """Let it happen, to a broker if it is a matter of one, and return when the cluster is well again."""
        getattr(self, f"_{name}")(node)
        self.cluster.wait_until_well()

    def tidy(self) -> None:
        """Delete what is old between two rounds: a slow machine must not make long logs, which make slow rounds."""
        assert self.witness is not None
        self._delete_records(
            {
                partition: ledger.reached - _KEPT_RECORDS
                for partition, ledger in self.witness.ledgers.items()
                if partition[0] != COMPACTED and ledger.reached > _KEPT_RECORDS
            }
        )

    def data_dir(self, node: int) -> Path:
        """A broker's data directory."""
        return self.cluster.brokers[node].data_dir

    # -- they happen to a topic ------------------------------------------------------------------------------------

    def _nothing(self, _: int) -> None:
        time.sleep(0.3)

    def _retention(self, _: int) -> None:
        self._configure("retention.bytes", str(_KEPT_BYTES))
        time.sleep(self.chance.uniform(0.2, 0.6))
        self._configure("retention.bytes", "-1")

    def _deletion(self, _: int) -> None:
        """DeleteRecords, until the files of both brokers have it."""
        assert self.witness is not None
        wanted = {}
        for topic in (PLAIN, TRANSACTIONS):
            partition = (topic, self.chance.randrange(PARTITIONS))
            ledger = self.witness.ledgers[partition]
            wanted[partition] = self.chance.randint(max(0, ledger.reached - 500), ledger.reached)
        wait_until(lambda: self._delete_records(wanted), _WAIT_S, "leaders that delete records", 0.2)
        wait_until(lambda: all(self._is_cut(*each) for each in wanted.items()), _WAIT_S, "deleted records", 0.05)
        self.cut |= wanted

    def _delete_records(self, wanted: Mapping[Partition, int]) -> bool:
        """Whether all leaders have deleted what lies before these offsets."""
        leaders = {
            (topic.name, each.partition_index): each.leader_id
            for topic in self.cluster.metadata().topics
            for each in topic.partitions
        }
        done = 0
        for node, broker in self.cluster.brokers.items():
            own = [(topic, number) for topic, number in wanted if leaders.get((topic, number)) == node]
            topics = [
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=number, offset=wanted[topic, number])],
                )
                for topic, number in own
            ]
            with WireClient(broker.bootstrap) as client:
                response = client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
            done += sum(not each.error_code for topic in response.topics for each in topic.partitions)
        return done == len(wanted)

    def _is_cut(self, partition: Partition, offset: int) -> bool:
        return all(_starts_at(self.data_dir(node), partition, offset) for node in self.cluster.brokers)

    def _topic_made_again(self, _: int) -> None:
        _patiently(lambda: self._admin.delete_topics([AGAIN], operation_timeout=30))
        time.sleep(self.chance.uniform(0, 0.3))
        self._make_again()

    def _make_again(self) -> None:
        wait_until(lambda: AGAIN not in self._admin.list_topics(timeout=10).topics, _WAIT_S, "the topic's end", 0.05)
        self._create(AGAIN)
        self.cluster.wait_until_well()
        self.lives.append(fill(self.cluster.bootstrap, self.chance, len(self.lives)))

    # -- they happen to a broker -----------------------------------------------------------------------------------

    def _crash(self, node: int) -> None:
        self.cluster.brokers[node].kill()
        time.sleep(self.chance.uniform(0, 0.5))
        self.cluster.brokers[node].start()

    def _stop(self, node: int) -> None:
        self.cluster.brokers[node].restart()

    def _torn_tail(self, node: int) -> None:
        """A crash after which the ends of logs are not there, as after a power loss; the other broker has them."""
        broker, other = self.cluster.brokers[node], 3 - node
        broker.kill()
        wait_until(lambda: self._leads_alone(other), _WAIT_S, "the other broker leads", 0.1)
        for topic in (PLAIN, COMPACTED, TRANSACTIONS, AGAIN):
            for number in range(PARTITIONS):
                last = max((broker.data_dir / f"{topic}-{number}").glob("*.log"))
                size = last.stat().st_size
                os.truncate(last, max(0, size - self.chance.choice((0, 1, 60, 700, 4000))))
        time.sleep(self.chance.uniform(0, 0.3))
        broker.start()

    def _leads_alone(self, node: int) -> bool:
        partitions = [each for topic in self.cluster.metadata().topics for each in topic.partitions]
        return all(each.leader_id == node and each.isr_nodes == [node] for each in partitions)

    def _lag(self, _: int) -> None:
        """The follower of a partition does not fetch, so its leader has records above the high watermark."""
        leader = self._leader(PLAIN, self.chance.randrange(PARTITIONS))
        with self._paused(3 - leader):
            time.sleep(0.5)
            assert self.witness is not None
            self.above(leader, self.witness)

    def _truncation(self, _: int) -> None:
        """The same, and the leader dies before the follower fetches: what only the leader had is truncated."""
        leader = self._leader(PLAIN, self.chance.randrange(PARTITIONS))
        with self._paused(3 - leader):
            time.sleep(self.chance.uniform(0.3, 0.8))
            if not self._all_in_sync(leader):
                return  # a machine that stood still has cost the follower its session: it would not be elected
            self.cluster.brokers[leader].kill()
        wait_until(lambda: self._leads(3 - leader), _WAIT_S, "the follower leads", 0.1)
        time.sleep(self.chance.uniform(0, 0.5))
        self.cluster.brokers[leader].start()

    def _all_in_sync(self, node: int) -> bool:
        """Whether a broker has both of them in all ISRs."""
        topics = self.cluster.metadata(node).topics
        return all(len(each.isr_nodes) == 2 for topic in topics for each in topic.partitions)

    def _leads(self, node: int) -> bool:
        topics = self.cluster.metadata().topics
        return all(each.leader_id == node for topic in topics for each in topic.partitions)

    @contextmanager
    def _paused(self, node: int) -> Iterator[None]:
        broker: KwireBroker = self.cluster.brokers[node]
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    def _leader(self, topic: str, number: int) -> int:
        found = next(each for each in self.cluster.metadata().topics if each.name == topic)
        return int(next(each.leader_id for each in found.partitions if each.partition_index == number))

    # -- topics ----------------------------------------------------------------------------------------------------

    def _create(self, *topics: str) -> None:
        new = [NewTopic(topic, PARTITIONS, 2, config=CONFIGS[topic]) for topic in topics]
        _patiently(lambda: self._admin.create_topics(new, operation_timeout=30))

    def _configure(self, name: str, value: str) -> None:
        entry = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)]
        resources = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entry) for topic in (PLAIN, TRANSACTIONS)
        ]
        _patiently(lambda: self._admin.incremental_alter_configs(resources))


def _patiently(request: Callable[[], Mapping[Any, Any]]) -> None:
    """Make a request of an admin client until it succeeds: on a busy machine a broker may lose its session."""
    limit_s = time.monotonic() + _WAIT_S
    while True:
        try:
            for future in request().values():
                future.result(30)
            return
        except KafkaException as error:
            if error.args[0].code() in _DONE_BEFORE:
                return
            if time.monotonic() > limit_s:
                raise
            time.sleep(0.2)


def _starts_at(data: Path, partition: Partition, offset: int) -> bool:
    """Whether a data directory says that a log starts at an offset or later."""
    name = f"{partition[0]}-{partition[1]}"
    if min(int(each.stem) for each in (data / name).glob("*.log")) >= offset:
        return True
    lines = (data / "log-start-offset-checkpoint").read_text().splitlines()
    return any(line.startswith(f"{partition[0]} {partition[1]} ") and int(line.split()[2]) >= offset for line in lines)
