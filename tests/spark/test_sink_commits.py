"""The sink at a broker, without Spark: what it stages and commits, however often it dies on the way."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import EARLIEST, LATEST, list_offsets
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.encoding import Rows
from kwire.cli.records.writing.parsing import Batch
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.spark.sink.commits import Run, commit_batch, commit_rows, forget
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.staging import Staged, Stager
from kwire.testing import Kwire, KwireProcess

T = TypeVar("T")
PARTITIONS = 3


class Died(BaseException):
    """The process ends here: nothing is cleaned up."""


@pytest.fixture(scope="module")
def process() -> Iterator[KwireProcess]:
    with KwireProcess() as process:
        yield process


@pytest.fixture
def broker(process: KwireProcess) -> Iterator[Kwire]:
    broker = Kwire(process)
    yield broker
    broker.reset()


class Sink:
    """One sink with a target of its own. Each call has its own connections, as in Spark."""

    def __init__(self, broker: Kwire, **options: str) -> None:
        self.topic = broker.topic(partitions=PARTITIONS, config=None)
        self.name = broker.name("sink")
        self.run = Run(f"query of {self.name}", "run-1")
        self.bootstrap = broker.bootstrap_servers
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, "sinkId": self.name, **options}
        self.options = SinkOptions.parse(given)

    def at(self, action: Callable[[Cluster], Awaitable[T]]) -> T:
        async def act() -> T:
            cluster = Cluster.of(self.bootstrap, {}, 20)
            try:
                return await action(cluster)
            finally:
                cluster.close()

        return asyncio.run(act())

    def stage(self, values: Sequence[bytes], tasks: int = 2) -> list[Staged]:
        """Rows in any order on any number of tasks."""
        mixed = random.sample(values, len(values))

        async def stage(cluster: Cluster, task: int) -> Staged:
            stager = await Stager.open(cluster, self.options, task)
            own = mixed[task::tasks]
            await stager.add(self.topic, Batch(Rows(own, [b"key" + value for value in own])))
            return await stager.finish()

        return [self.at(lambda cluster, task=task: stage(cluster, task)) for task in range(tasks)]  # type: ignore[misc]

    def commit(self, batch: int, staged: Sequence[Staged], run: str = "run-1") -> bool:
        run_of = self.run._replace(run=run)
        return self.at(lambda cluster: commit_batch(cluster, self.options, run_of, batch, staged))

    def values(self) -> Counter[bytes]:
        """What a reader with read_committed gets."""

        async def read(cluster: Cluster) -> Counter[bytes]:
            places = [(self.topic, index) for index in range(PARTITIONS)]
            starts = await list_offsets(cluster, dict.fromkeys(places, EARLIEST))
            ends = await list_offsets(cluster, dict.fromkeys(places, LATEST), committed=True)
            offsets = [{place: each.offset for place, each in found.items()} for found in (starts, ends)]
            reader = Reader(cluster, *offsets, committed=True, timeout_s=20)
            return Counter([value or b"" async for columns in reader.batches() for value in columns.values])

        return self.at(read)

    def lose_offset(self) -> None:
        """As when it has expired."""
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name=self.options.commits_topic, partitions=[partition])
        request = OffsetDeleteRequest(group_id=f"kwire-sink-{self.name}", topics=[topic])

        async def delete(cluster: Cluster) -> None:
            response = await cluster.at_coordinator(request.group_id, request, lambda it: int(it.error_code))
            assert response.error_code == response.topics[0].partitions[0].error_code == 0

        self.at(delete)


def values_of(batch: int, count: int = 60) -> list[bytes]:
    return [f"batch {batch} row {number}".encode() for number in range(count)]


def once(*batches: int) -> Counter[bytes]:
    return Counter([value for batch in batches for value in values_of(batch)])


def test_a_batch_is_written_once_however_often_it_comes(broker: Kwire) -> None:
    sink = Sink(broker)
    assert sink.commit(0, sink.stage(values_of(0)))
    assert sink.commit(1, sink.stage(values_of(1), tasks=3))
    assert not sink.commit(1, sink.stage(values_of(1), tasks=1))
    assert not sink.commit(1, sink.stage(values_of(1), tasks=5), "run-2")
    assert sink.values() == once(0, 1)


def dying(
    call: Callable[..., Awaitable[Any]], after: int, *, reaches_the_broker: bool
) -> Callable[..., Awaitable[Any]]:
    """`Cluster.call` of a process that ends with a request, after some others."""
    left = after

    async def call_or_die(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        dies, left = left == 0, left - 1
        if not dies:
            return await call(*arguments, **named)
        if reaches_the_broker:
            await call(*arguments, **named)
        raise Died

    return call_or_die


def test_the_driver_may_die_at_any_request(broker: Kwire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time the batch comes again with its rows on other tasks."""
    sink, call, deaths = Sink(broker), Cluster.call, 0
    for batch in range(60):
        staged = sink.stage(values_of(batch, 20), tasks=2)
        with monkeypatch.context() as patch:
            patch.setattr(Cluster, "call", dying(call, after=batch, reaches_the_broker=batch % 2 == 0))
            try:
                sink.commit(batch, staged)
            except Died:
                deaths += 1
        sink.commit(batch, sink.stage(values_of(batch, 20), tasks=1 + batch % 4), f"run-{batch}")
    assert deaths > 20
    assert sink.values() == Counter([value for batch in range(60) for value in values_of(batch, 20)])


def test_attempts_that_did_not_win_are_not_written(broker: Kwire) -> None:
    sink = Sink(broker)
    sink.stage([b"of a task that was tried twice"])
    winners = sink.stage(values_of(0))
    sink.stage([b"of a doubled task"])
    sink.commit(0, winners)
    assert sink.values() == once(0)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("AddPartitionsToTxn", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("Produce", "NOT_ENOUGH_REPLICAS"),
        ("Produce", "NETWORK_EXCEPTION"),
        ("AddOffsetsToTxn", "NOT_COORDINATOR"),
        ("TxnOffsetCommit", "COORDINATOR_NOT_AVAILABLE"),
        ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
        ("EndTxn", "NETWORK_EXCEPTION"),
        ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("Fetch", "NETWORK_EXCEPTION"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("Metadata", "NETWORK_EXCEPTION"),
    ],
)
def test_errors_that_pass_change_nothing(broker: Kwire, api: str, error: str) -> None:
    sink = Sink(broker)
    staged = sink.stage(values_of(0))
    broker.fail_next(api, error, times=2)
    assert sink.commit(0, staged)
    assert not broker.failures_left()
    assert sink.values() == once(0)


def test_staging_waits_for_leaders_that_have_not_heard_of_a_new_topic(broker: Kwire) -> None:
    sink = Sink(broker)
    broker.fail_next("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION", times=2)
    sink.commit(0, sink.stage(values_of(0)))
    assert sink.values() == once(0)


def test_an_error_that_does_not_pass_takes_everything_back(broker: Kwire) -> None:
    """A reader with read_committed does not wait for the transaction's timeout."""
    sink = Sink(broker)
    staged = sink.stage(values_of(0))
    broker.fail_next("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(Exception, match="no right to the group"):
        sink.commit(0, staged)
    assert sink.values() == once()
    assert sink.commit(0, staged)
    assert sink.values() == once(0)


def test_a_run_that_was_replaced_writes_nothing(broker: Kwire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drivers of one query: the second begins while the first is about to commit."""
    sink = Sink(broker)
    first, second = sink.stage(values_of(0)), sink.stage(values_of(0))
    from kwire.cli.records.writing.transaction import Transaction

    commit = Transaction.commit

    async def late(transaction: Transaction) -> None:
        monkeypatch.setattr(Transaction, "commit", commit)
        await asyncio.to_thread(sink.commit, 0, second, "run-2")
        await commit(transaction)

    monkeypatch.setattr(Transaction, "commit", late)
    with pytest.raises(CommandError, match="another run of this query has taken over"):
        sink.commit(0, first)
    assert sink.values() == once(0)


def test_the_mark_outlives_the_offset(broker: Kwire) -> None:
    sink = Sink(broker)
    sink.commit(0, sink.stage(values_of(0)))
    sink.commit(1, sink.stage(values_of(1)))
    sink.lose_offset()
    assert not sink.commit(1, sink.stage(values_of(1)))
    sink.lose_offset()
    with pytest.raises(SinkError, match="old copy"):
        sink.commit(0, sink.stage(values_of(0)))
    assert sink.values() == once(0, 1)


def test_another_query_with_the_name_is_refused_until_the_name_is_let_go(broker: Kwire) -> None:
    sink = Sink(broker)
    sink.commit(3, sink.stage(values_of(3)))
    sink.run, first = Run(f"another of {sink.name}", ""), sink.run
    with pytest.raises(SinkError, match=f"belongs to query {first.query}, which has written batch 3"):
        sink.commit(0, sink.stage(values_of(0)))
    assert sink.at(lambda cluster: forget(cluster, sink.options, sink.name))
    assert not sink.at(lambda cluster: forget(cluster, sink.options, sink.name))
    assert sink.commit(0, sink.stage(values_of(0)))
    assert sink.values() == once(0, 3)


def test_a_copied_checkpoint_is_refused(broker: Kwire) -> None:
    sink = Sink(broker)
    sink.commit(5, sink.stage(values_of(5)))
    copy, staged = sink.options._replace(sink_id="elsewhere"), sink.stage(values_of(6))
    with pytest.raises(SinkError, match=f"as sink '{sink.name}', and now comes as 'elsewhere'"):
        sink.at(lambda cluster: commit_batch(cluster, copy, sink.run._replace(run="run-2"), 6, staged))


def test_staged_rows_that_are_gone_fail_the_batch(broker: Kwire) -> None:
    sink = Sink(broker)
    lost = [each._replace(attempt=b"0" * 16) for each in sink.stage(values_of(0))]
    with pytest.raises(SinkError, match=r"not in topic kwire-sink-staging any more: its retention\.ms"):
        sink.commit(0, lost)
    assert sink.values() == once()


def test_batches_larger_than_the_target_takes_are_divided(broker: Kwire) -> None:
    sink = Sink(broker)
    small = broker.topic(partitions=PARTITIONS, config={"max.message.bytes": "2000"})
    sink.topic, sink.options = small, sink.options._replace(topic=small, compression=4)
    values = [random.Random(number).randbytes(100) for number in range(200)]
    sink.commit(0, sink.stage(values))
    assert sink.values() == Counter(values)


def test_a_batch_query_writes_all_rows_or_none(broker: Kwire) -> None:
    sink = Sink(broker)
    staged = sink.stage(values_of(0), tasks=3)
    broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(Exception, match="no right to the topic"):
        sink.at(lambda cluster: commit_rows(cluster, sink.options, staged))
    assert sink.values() == once()
    sink.at(lambda cluster: commit_rows(cluster, sink.options, staged))
    assert sink.values() == once(0)


def test_rows_with_keys_lie_where_kafkas_partitioner_puts_them_and_others_where_they_say(broker: Kwire) -> None:
    sink = Sink(broker)

    async def stage(cluster: Cluster) -> Staged:
        stager = await Stager.open(cluster, sink.options, 0)
        await stager.add(sink.topic, Batch(Rows([b"a", b"b"], [b"k", b"k"]), [2, 0]))
        with pytest.raises(SinkError, match=r"a row names partition 3: topic .* has 3"):
            await stager.add(sink.topic, Batch(Rows([b"a"]), [3]))
        return await stager.finish()

    sink.commit(0, [sink.at(stage)])

    async def ends(cluster: Cluster) -> list[int]:
        places = [(sink.topic, index) for index in range(PARTITIONS)]
        return [each.offset for each in (await list_offsets(cluster, dict.fromkeys(places, LATEST))).values()]

    assert sink.at(ends) == [2, 0, 2]  # a record and the transaction's marker


def test_a_target_that_does_not_exist_is_named() -> None:
    with KwireProcess({"auto.create.topics.enable": "false"}) as strict:
        broker = Kwire(strict)
        sink = Sink(broker, **{"kafka.max.block.ms": "200"})
        sink.topic = "nowhere"
        with pytest.raises(SinkError, match="topic nowhere does not exist: create it"):
            sink.stage([b"x"])
