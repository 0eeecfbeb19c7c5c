"""What a coordinator answers about transactions that it has loaded from the log: every state, with every request.

The states are written into ``__transaction_state`` as the client id `__admin_client` may, so that epochs near their end
cost nothing, and the broker loads them when it starts again. Each is asked once, and once more for the same, as a
client asks again whose coordinator has moved before it could answer.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kwire.codec.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.codec.protocol import encode
from kwire.codec.records import Record, build_batch
from kwire.coordinator.transactions.records import EPOCH_MAX, TransactionState, record_key

DATA = "data"
LAST = EPOCH_MAX - 1
"""The last epoch that a producer gets; `EPOCH_MAX` fences it."""
NEWER_COORDINATOR = 1000
OWN, PREVIOUS, NEXT, ANOTHER = range(4)
WHOSE = {OWN: "own", PREVIOUS: "previous", NEXT: "next", ANOTHER: "another"}
FENCED_OR_FAILED = (90, -1)
PER_BATCH = 500

S = TransactionState


class Loaded(NamedTuple):
    """A state in the log. ``version``: the version of transactions of the client that wrote it."""

    state: TransactionState
    version: int
    epoch: int
    previous: bool = False
    following: bool = False

    @property
    def text(self) -> str:
        more = [" after an id ended"] * self.previous + [" with the next id"] * self.following
        return f"{self.state.name} version {self.version} epoch {self.epoch}{''.join(more)}"


class Asked(NamedTuple):
    """A request: what, in which version, by which producer id, and with which epoch."""

    what: str
    version: int
    whose: int
    epoch: int


def states() -> Iterator[Loaded]:
    for state, version, epoch in itertools.product(
        (S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT),
        (0, 2),
        (5, LAST, EPOCH_MAX),
    ):
        if state is not S.ONGOING or epoch <= LAST:
            yield Loaded(state, version, epoch)
    for state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT, S.ONGOING):
        yield Loaded(state, 2, 0, previous=True)
    for state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
        yield Loaded(state, 2, EPOCH_MAX, following=True)


def requests(loaded: Loaded) -> Iterator[Asked]:
    epochs = [each for each in (loaded.epoch - 1, loaded.epoch, loaded.epoch + 1) if 0 <= each <= EPOCH_MAX]
    who = [(OWN, epoch) for epoch in epochs] + [(ANOTHER, loaded.epoch)]
    if loaded.previous or loaded.following:
        who += [(PREVIOUS, LAST), (PREVIOUS, EPOCH_MAX), (NEXT, 0)]
    for whose, epoch in who:
        for what, version in (("commit", 4), ("abort", 4), ("commit", 5), ("abort", 5)):
            yield Asked(what, version, whose, epoch)
        yield Asked("init", 5, whose, epoch)
        yield Asked("add", 3, whose, epoch)
        yield Asked("add", 4, whose, epoch)
        yield Asked("verify", 4, whose, epoch)
    yield Asked("init", 5, -1, -1)


def is_fenced_producers_end(loaded: Loaded, asked: Asked) -> bool:
    """A producer that was fenced by an older client's asks with the newer protocol: Apache Kafka takes it for a retry
    and gives it the epoch of the producer that fenced it, kwire does not (tests/coordinator/transactions)."""
    return (
        asked.what in ("commit", "abort")
        and asked.version == 5
        and loaded.version < 2
        and loaded.state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
        and (asked.whose, asked.epoch) == (OWN, loaded.epoch - 1)
    )


def is_past_the_last_epoch(loaded: Loaded, asked: Asked) -> bool:
    """A fenced producer wants to go on with an id that has no epoch left: Apache Kafka fails with an exception
    (UNKNOWN_SERVER_ERROR), kwire says PRODUCER_FENCED."""
    return asked.what == "init" and asked.whose == OWN and loaded.epoch >= LAST and asked.epoch != loaded.epoch


class Case(NamedTuple):
    """A transactional id in one state, for one request. ``base``: the first of its producer ids."""

    name: str
    base: int
    loaded: Loaded
    asked: Asked

    @property
    def text(self) -> str:
        asked = self.asked
        return f"{asked.what} v{asked.version} of {WHOSE.get(asked.whose, 'none')} {asked.epoch}"

    def plain(self, producer_id: int) -> str | int:
        if producer_id < 0:
            return producer_id
        return WHOSE.get(producer_id - self.base, "new")

    def record(self, now_ms: int) -> Record:
        loaded = self.loaded
        partitions = [PartitionsSchema(topic=DATA, partition_ids=[0])]
        is_open = loaded.state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
        value = TransactionLogValue(
            producer_id=self.base,
            producer_epoch=loaded.epoch,
            transaction_timeout_ms=600_000,
            transaction_status=loaded.state,
            transaction_partitions=partitions if is_open else None if loaded.state is S.EMPTY else [],
            transaction_last_update_timestamp_ms=now_ms,
            transaction_start_timestamp_ms=now_ms if is_open else -1,
            previous_producer_id=self.base + PREVIOUS if loaded.previous else self.base,
            next_producer_id=self.base + NEXT if loaded.following else -1,
            client_transaction_version=loaded.version,
        )
        return Record(-1, now_ms, record_key(self.name), b"\0\1" + encode(value, 1))

    def request(self) -> tuple[Any, int]:
        asked = self.asked
        producer_id = self.base + asked.whose if asked.whose >= 0 else -1
        if asked.what == "init":
            return (
                InitProducerIdRequest(
                    transactional_id=self.name,
                    transaction_timeout_ms=600_000,
                    producer_id=producer_id,
                    producer_epoch=asked.epoch,
                ),
                asked.version,
            )
        if asked.what in ("commit", "abort"):
            return (
                EndTxnRequest(
                    transactional_id=self.name,
                    producer_id=producer_id,
                    producer_epoch=asked.epoch,
                    committed=asked.what == "commit",
                ),
                asked.version,
            )
        topics = [AddPartitionsToTxnTopic(name=DATA, partitions=[0 if asked.what == "verify" else 1])]
        if asked.version < 4:
            return (
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.name,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=asked.epoch,
                    v3_and_below_topics=topics,
                ),
                asked.version,
            )
        one = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=producer_id,
            producer_epoch=asked.epoch,
            verify_only=asked.what == "verify",
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[one]), asked.version

    def answer(self, response: Any) -> Any:
        if self.asked.what in ("add", "verify"):
            topics = (
                response.results_by_topic_v3_and_below
                if self.asked.version < 4
                else response.results_by_transaction[0].topic_results
            )
            return topics[0].results_by_partition[0].partition_error_code
        if is_past_the_last_epoch(self.loaded, self.asked) and response.error_code in FENCED_OR_FAILED:
            return "refused"
        return [response.error_code, self.plain(response.producer_id), response.producer_epoch]


def cases() -> list[Case]:
    found: list[Case] = []
    for loaded in states():
        for asked in requests(loaded):
            if not is_fenced_producers_end(loaded, asked):
                number = len(found)
                found.append(Case(f"id-{number}", 1_000_000 + 10 * number, loaded, asked))
    return found


@pytest.fixture
def own_broker(broker_kind: str, tmp_path: Path) -> Iterator[Broker]:
    """A broker with one partition for the transactions' states."""
    broker = make_broker(broker_kind, tmp_path)
    broker.settings["transaction.state.log.num.partitions"] = "1"
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def prepare(broker: Broker, all_cases: list[Case]) -> None:
    """Write the states, and have the partition refuse the markers of prepared transactions: they stay prepared."""
    with WireClient(broker.bootstrap, "__admin_client") as client:
        topic = CreatableTopic(name=DATA, num_partitions=2, replication_factor=1)
        assert client.call(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
        client.call(FindCoordinatorRequest(key="first", key_type=1), 2)  # creates the topic
        first = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1000)
        wait_until(lambda: client.call(first, 4).error_code == 0, 20, "the topic of transactions")
        topics = [WritableTxnMarkerTopic(name=DATA, partition_indexes=[0])]
        markers = [
            WritableTxnMarker(
                producer_id=case.base,
                producer_epoch=0,
                transaction_result=False,
                topics=topics,
                coordinator_epoch=NEWER_COORDINATOR,
            )
            for case in all_cases
            if case.loaded.state.is_prepared
        ]
        for result in client.call(WriteTxnMarkersRequest(markers=markers), 1).markers:
            assert result.topics[0].partitions[0].error_code == 0
        now_ms = int(time.time() * 1000)
        for start in range(0, len(all_cases), PER_BATCH):
            records = [case.record(now_ms) for case in all_cases[start : start + PER_BATCH]]
            data = [PartitionProduceData(index=0, records=build_batch(records))]
            written = TopicProduceData(name="__transaction_state", partition_data=data)
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[written])
            assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0


def described(client: WireClient, all_cases: list[Case]) -> list[list[Any]]:
    """The states as they are now."""
    request = DescribeTransactionsRequest(transactional_ids=[case.name for case in all_cases])
    by_name = {each.transactional_id: each for each in client.call(request, 0).transaction_states}
    found = [(case, by_name[case.name]) for case in all_cases]
    return [
        [one.error_code, one.transaction_state, case.plain(one.producer_id), one.producer_epoch] for case, one in found
    ]


def test_requests_about_every_state_that_was_loaded(own_broker: Broker, observe: Observations) -> None:
    all_cases = cases()
    prepare(own_broker, all_cases)
    own_broker.restart()
    with WireClient(own_broker.bootstrap) as client:
        wait_until(lambda: all(each[0] == 0 for each in described(client, all_cases)), 60, "the log is loaded")
        anybody = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        wait_until(lambda: client.call(anybody, 4).error_code == 0, 60, "producer ids")
        answers: list[list[Any]] = []
        for _ in range(2):
            answers.append([case.answer(client.call(*case.request())) for case in all_cases])
            wait_until(lambda: is_settled(described(client, all_cases), all_cases), 60, "the markers")
        after = described(client, all_cases)
    seen: dict[str, dict[str, Any]] = {}
    for case, *values in zip(all_cases, *answers, after, strict=True):
        seen.setdefault(case.loaded.text, {})[case.text] = values
    observe("answers", seen)


def is_settled(found: list[list[Any]], all_cases: list[Case]) -> bool:
    """Whether only those are prepared that stay so."""
    return all(
        case.loaded.state.is_prepared or not one[1].startswith("Prepare")
        for case, one in zip(all_cases, found, strict=True)
    )
