"""Transactions on a broker in this process, by raw requests: what producers, readers and administrators get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from harness.waiting import PATIENCE_S, until
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_transactions_request import ListTransactionsRequest
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
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
from kwire.codec.records.control import parse_end_transaction_marker
from kwire.coordinator.transactions import coordinator
from kwire.coordinator.transactions.markers import MarkerWriter
from kwire.coordinator.transactions.records import Transaction
from kwire.handlers.context import RequestContext
from kwire.handlers.data import list_offsets
from kwire.handlers.data.fetch import handler as fetch
from kwire.handlers.data.produce import handler as produce
from kwire.handlers.groups import find_coordinator, offset_fetch
from kwire.handlers.topics import create_topics
from kwire.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from kwire.server.broker import Broker
from kwire.server.dump import dump

NONE = ErrorCode.NONE
OLD, NEW = 11, 12
"""Versions of Produce before and after partitions are added implicitly."""


class Client:
    """Calls the broker's handlers."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def ask(self, module: Any, request: Any, version: int) -> Any:
        context = RequestContext(self.broker.services, api_key=int(module.API.key), api_version=version)
        try:
            return await resolved(module.API.handle(request, context))
        except KafkaError as error:  # as the dispatcher does
            return module.API.error_response(request, version, error.code, error.message)

    async def init(self, name: str = "x", version: int = 4, **fields: Any) -> Any:
        request = InitProducerIdRequest(transactional_id=name, **{"transaction_timeout_ms": 60_000, **fields})
        return await self.ask(init_producer_id, request, version)

    async def begin_offsets(self, version: int) -> Any:
        """A producer whose transaction may have offsets of the group g, by this version of TxnOffsetCommit."""
        who = await self.init()
        if version < 5:
            await self.add_offsets(who)
        return who

    async def add_offsets(self, who: Any) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id="x", group_id="g", producer_id=who.producer_id, producer_epoch=who.producer_epoch
        )
        assert (await self.ask(add_offsets_to_txn, request, 3)).error_code == NONE

    async def add(self, who: Any, *indexes: int, name: str = "x", version: int = 3) -> list[int]:
        topics = [AddPartitionsToTxnTopic(name="t", partitions=list(indexes))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.producer_epoch,
            v3_and_below_topics=topics,
        )
        response = await self.ask(add_partitions_to_txn, request, version)
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        return [each.partition_error_code for each in results]

    async def write(self, who: Any, sequence: int, value: bytes = b"v", *, version: int = OLD, index: int = 0) -> int:
        error_code: int = (await self.produce(who, sequence, value, version=version, index=index)).error_code
        return error_code

    async def produce(
        self, who: Any, sequence: int, value: bytes = b"v", *, version: int = OLD, index: int = 0, name: str = "x"
    ) -> Any:
        batch = build_batch(
            [Record(-1, self.broker.doors.clock.time_ms(), None, value)],
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=index, records=memoryview(bytearray(batch)))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[topic])
        return (await self.ask(produce, request, version)).responses[0].partition_responses[0]

    async def end(self, who: Any, *, commit: bool, name: str = "x", version: int = 4) -> Any:
        request = EndTxnRequest(
            transactional_id=name, producer_id=who.producer_id, producer_epoch=who.producer_epoch, committed=commit
        )
        return await self.ask(end_txn, request, version)

    async def read(self, *, committed: bool = True, offset: int = 0, max_bytes: int = 1 << 20, index: int = 0) -> Any:
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 24,
            min_bytes=1,
            isolation_level=int(committed),
            topics=[FetchTopic(topic="t", partitions=[partition])],
        )
        return (await self.ask(fetch, request, 12)).responses[0].partitions[0]

    async def values(self, *, index: int = 0) -> list[bytes]:
        """What a read_committed consumer delivers."""
        data = await self.read(index=index)
        raw = self.bytes_of(data.records)
        aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions)
        open_aborts: set[int] = set()
        found: list[bytes] = []
        for position, header in iter_headers(raw):
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborts.add(aborted.pop(0)[1])
            records = list(iter_records(memoryview(raw)[position : position + header.size], max_bytes=1 << 20))
            if header.is_control:
                marker = parse_end_transaction_marker(records[0])
                if marker is not None and not marker.commit:
                    open_aborts.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborts):
                found.extend(bytes(record.value or b"") for record in records)
        return found

    def bytes_of(self, records: Any) -> bytes:
        if isinstance(records, bytes):
            return records
        data = self.broker.doors.files.pread(records.fd, records.size, records.position)
        records.release()
        return data

    def state(self, name: str = "x") -> Transaction:
        found = self.broker.services.transactions.describe(name)
        assert found is not None
        return found


@asynccontextmanager
async def client_of_a_broker(folder: Path) -> AsyncIterator[Client]:
    """A client of a new broker that has the topic t of two partitions."""
    async with Broker(
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=str(folder),
        transaction_state_log_num_partitions=2,
        offsets_topic_num_partitions=2,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=10,
    ) as broker:
        client = Client(broker)
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        await client.ask(create_topics, CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        for key_type in (0, 1):
            found = await client.ask(find_coordinator, FindCoordinatorRequest(key="x", key_type=key_type), 3)
            assert (found.error_code, found.node_id) == (0, broker.config.node_id)
        yield client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with client_of_a_broker(tmp_path) as opened:
        yield opened


# --- the old protocol ------------------------------------------------------------------------------------------------


async def test_records_are_seen_when_their_transaction_commits(client: Client) -> None:
    who = await client.init()
    assert (who.error_code, who.producer_epoch) == (0, 0)
    assert await client.add(who, 0) == [0]
    assert await client.write(who, 0, b"a") == NONE
    assert await client.values() == []
    assert len(client.bytes_of((await client.read(committed=False)).records)) > 0
    assert (await client.end(who, commit=True)).error_code == NONE
    assert await client.values() == [b"a"]
    assert client.state().state.text == "CompleteCommit"
    assert (await client.read()).last_stable_offset == 2


async def test_aborted_transactions_are_in_the_response(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0, 1)
    await client.write(who, 0, b"a")
    await client.write(who, 0, b"b", index=1)
    assert (await client.end(who, commit=False)).error_code == NONE
    await client.add(who, 0)
    assert await client.write(who, 1, b"c") == NONE
    assert (await client.end(who, commit=True)).error_code == NONE
    assert await client.values() == [b"c"]
    assert await client.values(index=1) == []


async def test_only_aborted_transactions_that_overlap_the_records_are_listed(client: Client) -> None:
    who = await client.init()
    for sequence in range(3):
        await client.add(who, 0)
        assert await client.write(who, sequence, b"a" * 5000) == NONE
        await client.end(who, commit=False)
    data = await client.read(offset=0, max_bytes=100)
    client.bytes_of(data.records)
    assert [one.first_offset for one in data.aborted_transactions] == [0]
    data = await client.read(offset=2, max_bytes=100)
    client.bytes_of(data.records)
    assert [one.first_offset for one in data.aborted_transactions] == [2]


async def test_ends_of_the_log_depend_on_the_isolation_level(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0)
    await client.write(who, 0)
    for level, offset in ((0, 1), (1, 0)):
        asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[asked])
        assert (await client.ask(list_offsets, request, 7)).topics[0].partitions[0].offset == offset


async def test_a_waiting_reader_is_woken_by_the_marker(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0)
    await client.write(who, 0)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=20_000,
        min_bytes=1,
        max_bytes=1 << 24,
        isolation_level=1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    waiting = asyncio.ensure_future(client.ask(fetch, request, 12))
    await asyncio.sleep(0)
    await client.end(who, commit=True)
    async with asyncio.timeout(PATIENCE_S):
        data = (await waiting).responses[0].partitions[0]
    assert client.bytes_of(data.records)


async def test_a_new_producer_fences_the_old_one(client: Client) -> None:
    old = await client.init()
    await client.add(old, 0)
    await client.write(old, 0, b"a")
    assert (await client.init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    new = await client.init()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, 2)
    assert await client.write(old, 1, b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await client.add(old, 0) == [ErrorCode.PRODUCER_FENCED]
    assert await client.add(old, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (await client.end(old, commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await client.end(old, commit=True, version=1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await client.values() == []


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_a_partition_outside_the_transaction_is_refused(client: Client, version: int, error: ErrorCode) -> None:
    who = await client.init()
    await client.add(who, 1)
    response = await client.produce(who, 0, version=version)
    assert (response.error_code, response.base_offset, response.log_start_offset) == (error, -1, -1)
    assert (await client.read(committed=False)).high_watermark == 0


async def test_an_unknown_producer_cannot_write(client: Client) -> None:
    who = await client.init()
    who.producer_id += 1
    assert await client.write(who, 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await client.add(who, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert (await client.end(who, commit=True)).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_time_out_beyond_the_limit_is_refused(client: Client, timeout_ms: int) -> None:
    response = await client.init(transaction_timeout_ms=timeout_ms)
    assert response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_a_transaction_that_takes_too_long_is_aborted(client: Client) -> None:
    who = await client.init(transaction_timeout_ms=20)
    await client.add(who, 0)
    await client.write(who, 0, b"a")
    async with asyncio.timeout(PATIENCE_S):
        while client.state().state.text != "CompleteAbort":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert (await client.end(who, commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert await client.values() == []
    again = await client.init(producer_id=who.producer_id, producer_epoch=who.producer_epoch)
    assert (again.error_code, again.producer_epoch) == (NONE, 1)  # it was the last one to hold the epoch before


async def test_few_transactions_are_aborted_and_few_ids_deleted_in_a_turn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "ENDED_PER_TURN", 2)
    service = client.broker.services.transactions
    for timer in service._timers.values():
        timer.cancel()
    names = [f"x{number}" for number in range(7)]
    for name in names:
        await client.add(await client.init(name, transaction_timeout_ms=1), 0, name=name)
    await asyncio.sleep(0.01)

    def left(state: str) -> int:
        found = map(service.describe, names)
        return sum(each is not None and each.state.text == state for each in found)

    def in_steps(steps: Iterator[None], state: str) -> None:
        before = left(state)
        assert before == len(names)
        for _ in steps:
            assert 0 < before - left(state) <= 2
            before = left(state)
        assert before == 0

    in_steps(service._abort_timed_out(), "Ongoing")
    for runtime in service._runtimes.values():
        monkeypatch.setattr(runtime.shard, "_settings", SimpleNamespace(transactional_id_expiration_ms=0))
    in_steps(service._expire(), "CompleteAbort")


async def test_partitions_are_added_all_or_none(client: Client) -> None:
    who = await client.init()
    codes = await client.add(who, 0, 9)
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.state().state.text == "Empty"


async def test_many_transactions_in_one_request(client: Client) -> None:
    who, other = await client.init("x"), await client.init("y")

    def transaction(name: str, whom: Any, *, verify: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=whom.producer_id,
            producer_epoch=whom.producer_epoch,
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )

    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction("x", who, verify=False),
            transaction("x", who, verify=True),
            transaction("y", other, verify=True),
        ]
    )
    response = await client.ask(add_partitions_to_txn, request, 4)
    codes = [
        one.topic_results[0].results_by_partition[0].partition_error_code for one in response.results_by_transaction
    ]
    assert codes == [0, 0, ErrorCode.TRANSACTION_ABORTABLE]


# --- offsets ---------------------------------------------------------------------------------------------------------


def offsets(who: Any, offset: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


async def committed_offset(client: Client) -> tuple[int, int]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])], require_stable=True)
    found = (await client.ask(offset_fetch, request, 8)).groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


@pytest.mark.parametrize("implicit", [False, True])
async def test_offsets_count_when_the_transaction_commits(client: Client, implicit: bool) -> None:
    who = await client.init()
    for commit, offset, seen in ((True, 5, 5), (False, 7, 5)):
        if not implicit:
            await client.add_offsets(who)
        response = await client.ask(txn_offset_commit, offsets(who, offset), 5 if implicit else 3)
        assert response.topics[0].partitions[0].error_code == NONE
        assert (await committed_offset(client))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        who2 = await client.end(who, commit=commit, version=5 if implicit else 3)
        assert who2.error_code == NONE
        who = who2 if implicit else who
        assert await committed_offset(client) == (seen, 0)


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_offsets_of_a_group_outside_the_transaction_are_refused(
    client: Client, version: int, error: ErrorCode
) -> None:
    who = await client.init()
    response = await client.ask(txn_offset_commit, offsets(who, 1), version)
    assert response.topics[0].partitions[0].error_code == error


# --- KIP-890 ---------------------------------------------------------------------------------------------------------


async def test_partitions_are_added_implicitly_and_each_end_bumps_the_epoch(client: Client) -> None:
    who = await client.init()
    for number in range(3):
        assert await client.write(who, 0, b"%d" % number, version=NEW) == NONE
        assert await client.write(who, 1, b"%d" % number, version=NEW) == NONE
        following = await client.end(who, commit=number != 1, version=5)
        assert (following.error_code, following.producer_epoch) == (NONE, who.producer_epoch + 1)
        again = await client.end(who, commit=number != 1, version=5)  # a retry whose response was lost
        assert (again.error_code, again.producer_epoch) == (NONE, following.producer_epoch)
        late = await client.end(who, commit=number == 1, version=5)
        assert late.error_code == ErrorCode.INVALID_TXN_STATE
        who = following
    assert await client.values() == [b"0", b"0", b"2", b"2"]


async def test_a_late_write_of_the_last_transaction_cannot_get_into_the_next_one(client: Client) -> None:
    who = await client.init()
    await client.write(who, 0, version=NEW)
    following = await client.end(who, commit=True, version=5)
    assert await client.write(who, 1, b"late", version=NEW) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await client.write(following, 1, b"gap", version=NEW) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await client.write(following, 0, b"next", version=NEW) == NONE


async def test_an_abort_without_a_transaction_bumps_the_epoch(client: Client) -> None:
    who = await client.init()
    following = await client.end(who, commit=False, version=5)
    assert (following.error_code, following.producer_epoch) == (NONE, who.producer_epoch + 1)
    assert (await client.end(following, commit=True, version=5)).error_code == ErrorCode.INVALID_TXN_STATE


async def test_an_exhausted_epoch_ends_in_a_new_producer_id(client: Client) -> None:
    who = await client.init()
    client.state().producer_epoch = who.producer_epoch = 32766
    assert await client.write(who, 0, b"last", version=NEW) == NONE
    following = await client.end(who, commit=True, version=5)
    assert (following.error_code, following.producer_epoch) == (NONE, 0)
    assert following.producer_id != who.producer_id
    again = await client.end(who, commit=True, version=5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, following.producer_id, 0)
    assert await client.values() == [b"last"]


# --- administration --------------------------------------------------------------------------------------------------


async def test_administrators_see_transactions(client: Client) -> None:
    who = await client.init()
    await client.init("other")
    await client.add(who, 0, 1)
    states = (
        await client.ask(
            describe_transactions, DescribeTransactionsRequest(transactional_ids=["x", "other", "none"]), 0
        )
    ).transaction_states
    assert [one.error_code for one in states] == [0, 0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    assert [one.transaction_state for one in states] == ["Ongoing", "Empty", ""]
    assert [(topic.topic, topic.partitions) for topic in states[0].topics] == [("t", [0, 1])]
    for fields, names in (
        ({}, {"x", "other"}),
        ({"state_filters": ["Ongoing"]}, {"x"}),
        ({"state_filters": ["Nope"]}, set()),
        ({"producer_id_filters": [who.producer_id]}, {"x"}),
        ({"duration_filter": 60_000_000}, {"other"}),
        ({"transactional_id_pattern": "o.*"}, {"other"}),
        ({"transactional_id_pattern": "the"}, set()),
    ):
        response = await client.ask(list_transactions, ListTransactionsRequest(**fields), 2)
        assert {one.transactional_id for one in response.transaction_states} == names
    response = await client.ask(list_transactions, ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_metrics_have_kafkas_names(client: Client) -> None:
    who = await client.init()
    assert await client.write(who, 0) == ErrorCode.TRANSACTION_ABORTABLE
    await client.add(who, 0)
    assert await client.write(who, 0) == 0
    assert await client.write(who, 1) == 0  # ongoing: no verification
    seen = client.broker.metrics.snapshot()
    verification = "kafka.server:type=AddPartitionsToTxnManager,name=Verification"
    assert (seen[verification + "FailureRate"]["Count"], seen[verification + "TimeMs"]["Count"]) == (1, 2)
    channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    assert (seen[channel + "UnknownDestinationQueueSize"], seen[channel + "LogAppendRetryQueueSize"]) == (0, 0)
    assert seen["kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-max"] == 0


async def test_markers_that_have_to_wait_are_counted(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0, 1)
    await client.write(who, 0)
    channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    away = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with patch.object(MarkerWriter, "_write_one", side_effect=away):
        await client.end(who, commit=True)
        await asyncio.sleep(0)  # the task that goes on writing markers
        assert client.broker.metrics.snapshot()[channel + "UnknownDestinationQueueSize"] == 2
    await until(lambda: client.state().state.text == "CompleteCommit")
    assert client.broker.metrics.snapshot()[channel + "UnknownDestinationQueueSize"] == 0
    assert await client.values() == [b"v"]


async def test_transactions_are_in_the_dump(client: Client) -> None:
    who = await client.init()
    await client.init("other")
    await client.add(who, 0, 1)
    found = {facts["transactional_id"]: facts for facts in client.broker.transactions.dump()}
    assert set(found) == {"x", "other"}
    assert (found["x"]["state"], found["other"]["state"]) == ("Ongoing", "Empty")
    assert (found["x"]["producer_id"], found["x"]["producer_epoch"]) == (who.producer_id, who.producer_epoch)
    assert (found["x"]["partitions"], found["x"]["partitions_in_all"]) == (["t-0", "t-1"], 2)
    assert 0 <= found["x"]["running_ms"] < 60_000 and found["other"]["running_ms"] == 0
    with patch("kwire.server.dump._log") as log:
        dump(client.broker)
    lines = [call for call in log.info.call_args_list if call.args == ("transaction",)]
    assert {call.kwargs["transactional_id"] for call in lines} == {"x", "other"}


async def test_a_hanging_transaction_can_be_aborted_by_its_marker(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0)
    await client.write(who, 0, b"hangs")
    assert (await client.read()).last_stable_offset == 0

    def marker(epoch: int, index: int = 0, version: int = 0) -> WriteTxnMarkersRequest:
        one = WritableTxnMarker(
            producer_id=who.producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[index])],
            coordinator_epoch=0,
            transaction_version=version,
        )
        return WriteTxnMarkersRequest(markers=[one])

    async def send(request: WriteTxnMarkersRequest, version: int = 1) -> int:
        response = await client.ask(write_txn_markers, request, version)
        code: int = response.markers[0].topics[0].partitions[0].error_code
        return code

    assert await send(marker(0, 7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await send(marker(0, version=2), 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await send(marker(0)) == NONE
    assert (await client.read()).last_stable_offset == 2
    assert await client.values() == []
    assert await send(marker(-1)) == ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka
