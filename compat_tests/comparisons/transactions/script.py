"""Scripts of raw transaction requests, whose responses and visible effects must be the same on both brokers.

Producer ids are replaced by names in order of appearance. Kafka responds to EndTxn before the markers are written, so a
script waits for them where the next step depends on them (`settled`). The records in ``__transaction_state`` are part
of the observations.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.comparisons.groups.script import Script
from compat_tests.names import Names
from harness.processes.brokers import Broker, wait_until
from kwire.codec.message import Struct
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_transactions_request import ListTransactionsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.codec.records import Record, build_batch, iter_headers, iter_records
from kwire.coordinator.transactions import records as transaction_records

_PRODUCER_IDS = {"producer_id", "previous_producer_id", "next_producer_id"}
_UNORDERED = {"results_by_partition"}
_TIMES = {
    "log_append_time_ms",
    "throttle_time_ms",
    "transaction_start_time_ms",
    "transaction_last_update_timestamp_ms",
    "transaction_start_timestamp_ms",
    "last_timestamp",
}


class Producer(NamedTuple):
    """The transactional id, producer id and epoch that a request carries."""

    name: str
    id: int
    epoch: int


class TransactionScript(Script):
    """One test's conversation with a broker about transactions of ``id`` on the topic ``topic``."""

    def __init__(self, broker: Broker, new_name: Names) -> None:
        super().__init__(broker)
        self.id = new_name("txn")
        self.name = new_name("topic")
        self.group = new_name("group")
        self._ids: dict[int, str] = {}
        self.topic(self.name, 2)
        self.ready(self.group)
        wait_until(self._is_led, 20, "leaders")
        anybody = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        wait_until(lambda: self.client().call(anybody, 4).error_code == 0, 20, "producer ids")
        request = FindCoordinatorRequest(key=self.id, key_type=1)
        wait_until(lambda: self.client().call(request, 2).error_code == 0, 20, "a coordinator")
        wait_until(lambda: self.transaction().error_code in (0, 105), 20, "the coordinator's response")

    def _is_led(self) -> bool:
        """Whether the broker leads the new topic's partitions and serves them."""
        return all(self.ends(0)[index] == [index, 0, 0] for index in (0, 1))

    def ends(self, level: int) -> list[list[int]]:
        """Partition, end offset and error code of both partitions."""
        ends = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=level, topics=[ListOffsetsTopic(name=self.name, partitions=ends)]
        )
        found = self.client("watch").call(request, 7).topics[0].partitions
        return sorted([one.partition_index, one.offset, one.error_code] for one in found)

    def plain(self, value: Any, field: str = "") -> Any:
        """As in `Script`, with producer ids named."""
        if field in _UNORDERED and isinstance(value, list):
            return [self.plain(item) for item in sorted(value, key=_by_partition)]
        if field in _PRODUCER_IDS:
            return self._ids.setdefault(value, f"producer{len(self._ids)}") if value >= 0 else value
        if isinstance(value, Struct):
            names = [name for name in value.__slots__ if name not in _TIMES]
            return {name: self.plain(getattr(value, name), name) for name in names}
        return super().plain(value, field)

    # -- requests ------------------------------------------------------------------------------------------------------

    def init(
        self, version: int = 4, *, name: str | None = None, who: Producer | None = None, **fields: Any
    ) -> Producer:
        """InitProducerId; ``who``: the producer that asks for a new epoch (KIP-360)."""
        name = self.id if name is None else name
        given = {"producer_id": who.id, "producer_epoch": who.epoch} if who is not None else {}
        request = InitProducerIdRequest(transactional_id=name, **{"transaction_timeout_ms": 60_000, **given, **fields})
        response = self.call("init", request, version)
        return Producer(name, response.producer_id, response.producer_epoch)

    def init_until_it_works(self, version: int = 4, **fields: Any) -> Producer:
        """Retry InitProducerId while the last transaction is aborted, as producers do; record the last response."""
        request = InitProducerIdRequest(transactional_id=self.id, **{"transaction_timeout_ms": 60_000, **fields})
        responses: list[Any] = []

        def works() -> bool:
            responses.append(self.client().call(request, version))
            return int(responses[-1].error_code) != 51

        wait_until(works, 20, "a producer id")
        self.see(f"init v{version}", responses[-1])
        return Producer(self.id, responses[-1].producer_id, responses[-1].producer_epoch)

    def add(self, who: Producer, *indexes: int, version: int = 3, topic: str | None = None) -> Any:
        """AddPartitionsToTxn for partitions of one topic."""
        topics = [AddPartitionsToTxnTopic(name=topic or self.name, partitions=list(indexes))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who.name,
            v3_and_below_producer_id=who.id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=topics,
        )
        return self.call("add", request, version)

    def add_batched(self, who: Producer, *indexes: int, verify: bool = False, version: int = 4) -> Any:
        """AddPartitionsToTxn in the form that brokers send (version 4 and later)."""
        topics = [AddPartitionsToTxnTopic(name=self.name, partitions=list(indexes))]
        one = AddPartitionsToTxnTransaction(
            transactional_id=who.name, producer_id=who.id, producer_epoch=who.epoch, verify_only=verify, topics=topics
        )
        return self.call("add batched", AddPartitionsToTxnRequest(transactions=[one]), version)

    def add_offsets(self, who: Producer, version: int = 3) -> Any:
        """AddOffsetsToTxn for the script's group."""
        request = AddOffsetsToTxnRequest(
            transactional_id=who.name, producer_id=who.id, producer_epoch=who.epoch, group_id=self.group
        )
        return self.call("add offsets", request, version)

    def write(
        self,
        who: Producer,
        sequence: int,
        value: bytes = b"v",
        *,
        version: int = 11,
        index: int = 0,
        count: int = 1,
        transactional: bool = True,
        time_ms: int = 0,
    ) -> Any:
        """Produce one transactional batch of one record."""
        now_ms = time_ms or int(time.time() * 1000)
        batch = build_batch(
            [Record(-1, now_ms, None, value)] * count,
            producer_id=who.id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        topic = TopicProduceData(name=self.name, partition_data=[PartitionProduceData(index=index, records=batch)])
        request = ProduceRequest(
            transactional_id=who.name if transactional else None, acks=-1, timeout_ms=10_000, topic_data=[topic]
        )
        return self.call("write", request, version)

    def commit_offsets(self, who: Producer, offset: int, version: int = 3, index: int = 0, **fields: Any) -> Any:
        """TxnOffsetCommit of one offset."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata="m"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=who.name,
            group_id=self.group,
            producer_id=who.id,
            producer_epoch=who.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.name, partitions=[partition])],
            **fields,
        )
        return self.call("commit offsets", request, version)

    def end(self, who: Producer, *, commit: bool, version: int = 4, settle: bool = True) -> Producer:
        """End the transaction; returns the producer with the epoch for the next one."""
        request = EndTxnRequest(
            transactional_id=who.name, producer_id=who.id, producer_epoch=who.epoch, committed=commit
        )
        response = self.call("end", request, version)
        if settle:
            self.settled(who.name)
        return Producer(who.name, response.producer_id, response.producer_epoch) if version >= 5 else who

    def marker(
        self, who: Producer, *indexes: int, commit: bool = False, epoch: int = 0, version: int = 1, level: int = 0
    ) -> Any:
        """WriteTxnMarkers for one producer."""
        topics = [WritableTxnMarkerTopic(name=self.name, partition_indexes=list(indexes))]
        one = WritableTxnMarker(
            producer_id=who.id,
            producer_epoch=who.epoch,
            transaction_result=commit,
            topics=topics,
            coordinator_epoch=epoch,
            transaction_version=level,
        )
        return self.call("marker", WriteTxnMarkersRequest(markers=[one]), version)

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def transaction(self, name: str | None = None) -> Any:
        """The state of a transactional id in DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id if name is None else name])
        return self.client("watch").call(request, 0).transaction_states[0]

    def settled(self, name: str | None = None) -> None:
        """Wait until all markers are written."""
        wait_until(lambda: not self.transaction(name).transaction_state.startswith("Prepare"), 20, "the end")

    def look(self) -> None:
        """Record the transaction's state, the partitions' producers and ends, and a fetch at each isolation level."""
        self.settled()
        state = self.transaction()
        state.topics.sort(key=lambda topic: topic.topic)
        for topic in state.topics:
            topic.partitions.sort()
        self.see("state", state)
        requested = DescribeProducersRequest(topics=[TopicRequest(name=self.name, partition_indexes=[0, 1])])
        response = self.client("watch").call(requested, 0)
        for partition in response.topics[0].partitions:
            partition.active_producers.sort(key=lambda one: one.producer_id)
            for one in partition.active_producers:  # counts leader changes since the broker's first start
                one.coordinator_epoch = min(one.coordinator_epoch, 0)
        response.topics[0].partitions.sort(key=lambda partition: partition.partition_index)
        self.see("producers", response)
        for level in (0, 1):
            self.see(f"ends {level}", self.ends(level))
            for index in (0, 1):
                self.see(f"read {level} {index}", self.read(index, level))

    def read(self, index: int = 0, level: int = 1, offset: int = 0, max_bytes: int = 1 << 20) -> list[Any]:
        """The offsets, batches and aborted transactions of a fetch."""
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation_level=level,
            topics=[FetchTopic(topic=self.name, partitions=[partition])],
        )
        found = self.client("watch").call(request, 12).responses[0].partitions[0]
        raw = bytes(found.records or b"")
        batches = [
            [
                header.base_offset,
                header.count,
                header.attributes,
                self.plain(header.producer_id, "producer_id"),
                header.producer_epoch,
                header.base_sequence,
            ]
            for _, header in iter_headers(raw, allow_partial=True)
        ]
        aborted = found.aborted_transactions
        aborted = (
            None
            if aborted is None
            else [[self.plain(one.producer_id, "producer_id"), one.first_offset] for one in aborted]
        )
        return [found.error_code, found.high_watermark, found.last_stable_offset, batches, aborted]

    def list(self, version: int = 2, **fields: Any) -> None:
        """ListTransactions, only the script's transactional id."""
        response = self.client("watch").call(ListTransactionsRequest(**fields), version)
        response.transaction_states = [one for one in response.transaction_states if one.transactional_id == self.id]
        self.see("list", response)

    def written_states(self) -> None:
        """Record the transactional id's records in ``__transaction_state``."""
        records = list(_records(self.broker.data_dir, self.id))
        self.seen.append(["records", [[version, self.plain(value)] for version, value in records]])


def _by_partition(item: Any) -> int:
    index: int = item.partition_index
    return index


def _records(data_dir: Path, transactional_id: str) -> Iterable[tuple[int, Any]]:
    for path in sorted(data_dir.glob("__transaction_state-*/*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            for record in iter_records(memoryview(data)[position : position + header.size], max_bytes=1 << 24):
                if transaction_records.parse_key(record.key or b"") == transactional_id:
                    if record.value is None:
                        yield -1, None
                        continue
                    value = transaction_records.parse_value(record.value)
                    for topic in value.transaction_partitions or ():
                        topic.partition_ids.sort()
                    if value.transaction_partitions:
                        value.transaction_partitions.sort(key=lambda topic: topic.topic)
                    yield struct.unpack_from(">h", record.value)[0], value
