"""The source at a broker, without Spark: what it plans and what its tasks read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from kwire.arrow.ranges import Range
from kwire.cli.connection.cluster import Cluster
from kwire.cli.records.writing.encoding import Rows
from kwire.cli.records.writing.sending import Sender, Settings
from kwire.cli.records.writing.transaction import Transaction
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.spark.sink.options import SinkOptions
from kwire.spark.source.batch_reader import BatchReader
from kwire.spark.source.errors import DataLossError, SourceError
from kwire.spark.source.options import SourceOptions
from kwire.spark.source.readers import Offsets, OldStreamReader, StreamCore
from kwire.spark.source.reading import read
from kwire.testing import Kwire, KwireProcess

T = TypeVar("T")
FIRST_MS = int(time.time()) * 1000 - 3_600_000


@pytest.fixture(scope="module")
def process() -> Iterator[KwireProcess]:
    with KwireProcess() as process:
        yield process


@pytest.fixture
def source(process: KwireProcess) -> Iterator[Source]:
    broker = Kwire(process)
    yield Source(broker)
    broker.reset()


class Source:
    """A topic of three partitions, and what is read of it."""

    def __init__(self, broker: Kwire) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap_servers
        self.topic = broker.topic(partitions=3)

    def at(self, action: Callable[[Cluster], Awaitable[T]]) -> T:
        async def act() -> T:
            cluster = Cluster.of(self.bootstrap, {}, 20)
            try:
                return await action(cluster)
            finally:
                cluster.close()

        return asyncio.run(act())

    def write(self, partition: int, *values: str, compression: int = 0) -> None:
        """Records whose times are their values if these are numbers."""
        times = [FIRST_MS + (int(each) if each.isdecimal() else 0) for each in values]
        headers = [(("h", each.encode()),) if each.startswith("h") else () for each in values]
        rows = Rows([each.encode() for each in values], [each[:1].encode() for each in values], headers, times)

        async def send(cluster: Cluster) -> None:
            settings = Settings(self.topic, acks=-1, compression=compression, timeout_s=20)
            await (await Sender.open(cluster, settings, idempotent=False)).send({partition: rows})

        self.at(send)

    def numbers(self, partition: int, first: int, end: int) -> None:
        self.write(partition, *map(str, range(first, end)))

    def cut(self, partition: int, offset: int) -> None:
        """Delete the records before an offset."""
        own = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=self.topic, partitions=[own])], timeout_ms=10000)
        self.at(lambda cluster: cluster.call(request))

    def delete(self) -> None:
        self.at(lambda it: it.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=self.topic)], timeout_ms=10000)))

    def create(self, partitions: int = 3) -> None:
        topic = CreatableTopic(name=self.topic, num_partitions=partitions, replication_factor=1)
        self.at(lambda cluster: cluster.call(CreateTopicsRequest(topics=[topic])))

    def grow(self, partitions: int) -> None:
        topic = CreatePartitionsTopic(name=self.topic, count=partitions, assignments=None)
        self.at(lambda cluster: cluster.call(CreatePartitionsRequest(topics=[topic], timeout_ms=10000)))

    def options(self, given: dict[str, str], *, streaming: bool = False) -> SourceOptions:
        least = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic}
        if streaming:
            least["startingOffsets"] = "earliest"
        if {"assign", "subscribePattern"} & given.keys():
            del least["subscribe"]
        return SourceOptions.parse({**least, **given}, streaming=streaming)

    def batch(self, **given: str) -> list[str]:
        """The values that a batch query reads, sorted as numbers."""
        options = self.options(given)
        reader = BatchReader(options)
        tables = [each for part in reader.partitions() for each in reader.read(part)]
        return values(tables)

    def stream(self, **given: str) -> StreamCore:
        return StreamCore(self.options(given, streaming=True))

    def read(self, core: StreamCore, start: Offsets, end: Offsets) -> list[str]:
        return values([batch for each in core.between(start, end) for batch in read(core.options, each)])


def values(tables: list[pa.RecordBatch]) -> list[str]:
    found = [value.decode() for table in tables for value in table.column("value").to_pylist()]
    return sorted(found, key=lambda each: (len(each), each))


def texts(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


# -- batch queries ---------------------------------------------------------------------------------------------------


def test_all_columns_are_those_of_sparks_source(source: Source) -> None:
    source.write(1, "h7", "8", compression=4)
    options = source.options({"includeHeaders": "true"})
    (table,) = read(options, Range(source.topic, 1, 0, 2))
    assert [(each.name, str(each.type)) for each in table.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<item: struct<key: string, value: binary>>"),
    ]
    first, second = table.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (b"h", b"h7", source.topic, 1)
    assert (first["offset"], second["offset"], first["timestampType"]) == (0, 1, 0)
    assert first["headers"] == [{"key": "h", "value": b"h7"}]
    assert second["headers"] is None
    assert second["timestamp"].timestamp() * 1000 == FIRST_MS + 8


@pytest.mark.parametrize("own", [None, InputPartition(None)])
def test_an_empty_topic_gives_nothing(source: Source, own: InputPartition | None) -> None:
    """PySpark then reads a partition of its own: None, or an empty one in later versions."""
    assert source.batch() == []
    assert list(BatchReader(source.options({})).read(own)) == []
    assert list(OldStreamReader(source.options({}, streaming=True)).read(own)) == []


def test_all_that_is_there_is_read_whatever_the_number_of_tasks(source: Source) -> None:
    for partition in range(3):
        source.numbers(partition, partition * 1000, partition * 1000 + 1000)
    for tasks in ("1", "7", "50"):
        assert source.batch(minPartitions=tasks) == texts(0, 3000)


def test_offsets_by_partition(source: Source) -> None:
    source.numbers(0, 0, 10)
    source.numbers(1, 10, 20)
    start = f'{{"{source.topic}": {{"0": 7, "1": -2, "2": 0}}}}'
    end = f'{{"{source.topic}": {{"0": -1, "1": 3, "2": -1}}}}'
    assert source.batch(startingOffsets=start, endingOffsets=end) == ["7", "8", "9", "10", "11", "12"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"TOPIC": {"0": 1, "1": 1}}', "startingOffsets does not name TOPIC-2: it must name every partition"),
        ('{"TOPIC": {"0": 1, "1": 1, "2": 1, "3": 1}}', "startingOffsets names TOPIC-3, which is not read"),
    ],
)
def test_offsets_for_other_partitions_are_refused(source: Source, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message.replace("TOPIC", source.topic)):
        source.batch(startingOffsets=text.replace("TOPIC", source.topic))


def test_the_ends_of_partitions_are_those_when_a_task_reads(source: Source) -> None:
    """Spark plans a frame once, however often it is read."""
    source.numbers(0, 0, 10)
    reader = BatchReader(source.options({}))
    parts = reader.partitions()
    assert len(parts) == 2, "a task for the partition with records, one for those without"
    source.cut(0, 4)
    source.numbers(0, 10, 12)
    source.numbers(2, 12, 15)
    assert values([each for part in parts for each in reader.read(part)]) == texts(4, 15)


def test_with_given_ends_a_task_reads_those(source: Source) -> None:
    source.numbers(0, 0, 10)
    start = f'{{"{source.topic}": {{"0": 2, "1": 0, "2": 0}}}}'
    end = f'{{"{source.topic}": {{"0": 8, "1": 0, "2": 0}}}}'
    reader = BatchReader(source.options({"startingOffsets": start, "endingOffsets": end}))
    (part,) = reader.partitions()
    source.numbers(0, 10, 12)
    assert values(list(reader.read(part))) == texts(2, 8)


def test_a_topic_deleted_between_planning_and_reading_is_an_error_or_nothing(source: Source) -> None:
    source.numbers(0, 0, 10)
    readers = [BatchReader(source.options({"failOnDataLoss": fails})) for fails in ("true", "false")]
    (strict, *_), (careless, *_) = (reader.partitions() for reader in readers)
    source.delete()
    with pytest.raises(DataLossError, match=source.topic):
        list(readers[0].read(strict))
    assert list(readers[1].read(careless)) == []


def test_a_start_after_the_end_is_named(source: Source) -> None:
    start = f'{{"{source.topic}": {{"0": 1, "1": 0, "2": 0}}}}'
    with pytest.raises(SourceError, match="-0 begins at 1, after its end at 0"):
        source.batch(startingOffsets=start)
    assert source.batch(startingOffsets=start, failOnDataLoss="false") == []


def test_a_word_for_each_topic(source: Source) -> None:
    source.numbers(0, 0, 10)
    core = source.stream(startingOffsets=f'{{"{source.topic}": "latest"}}')
    assert core.initial()[source.topic]["0"] == 10
    with pytest.raises(SourceError, match="startingOffsets names nowhere, which is not read"):
        source.stream(startingOffsets=f'{{"{source.topic}": "latest", "nowhere": "latest"}}').initial()


def test_timestamps(source: Source) -> None:
    for partition in range(3):
        source.numbers(partition, 0, 10)
    start, end = str(FIRST_MS + 4), str(FIRST_MS + 6)
    assert source.batch(startingTimestamp=start, endingTimestamp=end) == ["4"] * 3 + ["5"] * 3
    by_partition = f'{{"{source.topic}": {{"0": {FIRST_MS + 8}, "1": {FIRST_MS + 9}, "2": {FIRST_MS + 9}}}}}'
    assert source.batch(startingOffsetsByTimestamp=by_partition) == ["8", "9", "9", "9"]


def test_a_timestamp_after_the_last_record_is_an_error_or_the_end(source: Source) -> None:
    source.numbers(0, 0, 10)
    late = str(FIRST_MS + 100)
    with pytest.raises(
        SourceError, match=r"no offset of .*-0 has a timestamp of .* startingOffsetsByTimestampStrategy to latest"
    ):
        source.batch(startingTimestamp=late)
    assert source.batch(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    assert source.batch(endingTimestamp=late) == texts(0, 10)


def test_some_partitions_and_topics_by_pattern(source: Source) -> None:
    source.numbers(0, 0, 5)
    source.numbers(2, 5, 9)
    assert source.batch(assign=f'{{"{source.topic}": [2]}}') == texts(5, 9)
    assert source.batch(subscribePattern=source.topic[:-1] + ".") == texts(0, 9)
    assert source.batch(subscribePattern="nothing has this name") == []
    with pytest.raises(SourceError, match="has no partition 3: it has 3"):
        source.batch(assign=f'{{"{source.topic}": [3]}}')


def test_read_committed_leaves_out_what_is_open_or_aborted(source: Source) -> None:
    source.numbers(0, 0, 3)
    sink = SinkOptions.parse({"kafka.bootstrap.servers": source.bootstrap})
    from kwire.cli.records.writing.encoding import encode_batch

    async def write(name: str, value: bytes, end: str, cluster: Cluster) -> None:
        transaction = await Transaction.begin(cluster, name, open_ms=60_000, timeout_s=sink.timeout_s, fenced="fenced")
        await transaction.write((source.topic, 0), encode_batch(Rows([value]), FIRST_MS))
        await transaction._flush()
        if end:
            await getattr(transaction, end)()

    for name, value, end in (("a", b"3", "commit"), ("b", b"4", "abort"), ("c", b"5", "commit"), ("d", b"6", "")):
        source.at(partial(write, source.broker.name(name), value, end))
    assert source.batch(**{"kafka.isolation.level": "read_committed"}) == ["0", "1", "2", "3", "5"]
    assert source.batch() == texts(0, 7)


def test_records_that_are_gone_are_an_error_or_left_out(source: Source) -> None:
    source.numbers(0, 0, 10)
    source.cut(0, 4)
    start = f'{{"{source.topic}": {{"0": 2, "1": 0, "2": 0}}}}'
    with pytest.raises(DataLossError, match=r"-0 begins at offset 4, and 2 was to be read.* failOnDataLoss to false"):
        source.batch(startingOffsets=start)
    assert source.batch(startingOffsets=start, failOnDataLoss="false") == texts(4, 10)
    assert source.batch() == texts(4, 10)


def test_an_end_that_does_not_come_is_an_error_or_the_end(source: Source) -> None:
    """A partition that has become shorter; the time for which it is waited is an option."""
    source.numbers(0, 0, 10)
    quick = {"kafka.default.api.timeout.ms": "1000"}
    wanted = Range(source.topic, 0, 5, 20)
    with pytest.raises(DataLossError, match="has nothing before offset 20"):
        list(read(source.options(quick), wanted))
    assert values(list(read(source.options({"failOnDataLoss": "false", **quick}), wanted))) == texts(5, 10)


def test_a_topic_that_does_not_exist_is_named() -> None:
    with KwireProcess({"auto.create.topics.enable": "false"}) as strict:
        options = {"kafka.bootstrap.servers": strict.bootstrap_servers, "subscribe": "nowhere"}
        options["kafka.default.api.timeout.ms"] = "500"
        with pytest.raises(SourceError, match=r"topic nowhere: .*create it, or correct the option subscribe"):
            BatchReader(SourceOptions.parse(options, streaming=False)).partitions()


def test_a_cluster_that_is_not_there_is_named() -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a", "kafka.default.api.timeout.ms": "300"}
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1: "):
        BatchReader(SourceOptions.parse(options, streaming=False)).partitions()


# -- streaming queries -----------------------------------------------------------------------------------------------


def test_batches_follow_each_other_without_gaps(source: Source) -> None:
    core = source.stream()
    start = core.initial()
    assert start[source.topic]["0"] == 0
    assert core.latest(start, 0, 0) is start, "nothing has come"
    source.numbers(0, 0, 10)
    end = core.latest(start, 0, 0)
    assert source.read(core, start, end) == texts(0, 10)
    source.numbers(1, 10, 15)
    assert source.read(core, end, core.latest(end, 0, 0)) == texts(10, 15)


def test_a_stream_begins_at_the_end_unless_told_otherwise(source: Source) -> None:
    source.numbers(0, 0, 10)
    core = source.stream(startingOffsets="latest")
    start = core.initial()
    source.numbers(0, 10, 12)
    assert source.read(core, start, core.latest(start, 0, 0)) == texts(10, 12)


def test_a_limit_is_kept_and_everything_comes_at_last(source: Source) -> None:
    source.numbers(0, 0, 90)
    source.numbers(1, 90, 100)
    core = source.stream()
    start, found, sizes = core.initial(), list[str](), list[int]()
    while (end := core.latest(start, 20, 0)) is not start:
        read_now = source.read(core, start, end)
        sizes.append(len(read_now))
        found += read_now
        start = end
    assert sorted(found, key=int) == texts(0, 100)
    assert max(sizes) <= 21
    assert len(sizes) >= 5


def test_too_few_records_are_waited_for_so_long(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("kwire.spark.source.readers.time.monotonic", lambda: now_s)
    core = source.stream(minOffsetsPerTrigger="10", maxTriggerDelay="5m")
    start = core.initial()
    source.numbers(0, 0, 2)
    first = core.latest(start, 0, 10)
    assert source.read(core, start, first) == texts(0, 2), "the first batch of a run has what there is"
    source.numbers(0, 2, 6)
    assert core.latest(first, 0, 10) is first
    now_s += 299
    assert core.latest(first, 0, 10) is first
    now_s += 1
    end = core.latest(first, 0, 10)
    assert source.read(core, first, end) == texts(2, 6)
    source.numbers(0, 6, 16)
    assert source.read(core, end, core.latest(end, 0, 10)) == texts(6, 16)


def test_new_partitions_are_read_from_their_beginning(source: Source) -> None:
    core = source.stream(startingOffsets="latest")
    start = core.initial()
    source.grow(5)
    source.numbers(4, 0, 3)
    assert source.read(core, start, core.latest(start, 0, 0)) == texts(0, 3)


def test_new_topics_of_a_pattern_are_read_from_their_beginning(source: Source) -> None:
    core = source.stream(subscribePattern=f"{source.topic}.*", startingOffsets="latest")
    start, first = core.initial(), source.topic
    source.topic = f"{first}-more"
    source.create(1)
    source.numbers(0, 0, 3)
    end = core.latest(start, 0, 0)
    assert source.read(core, start, end) == texts(0, 3)
    assert {*end} == {first, source.topic}


def test_a_topic_made_again_is_an_error_or_read_from_its_beginning(source: Source) -> None:
    """Also when it has as many records as before, which offsets alone would not tell."""
    source.numbers(0, 0, 5)
    core = source.stream()
    before = core.latest(core.initial(), 0, 0)
    source.delete()
    source.create()
    source.numbers(0, 10, 15)
    with pytest.raises(DataLossError, match=f"topic {source.topic} was deleted and made again"):
        core.latest(before, 0, 0)
    careless = source.stream(failOnDataLoss="false")
    assert source.read(careless, before, careless.latest(before, 0, 0)) == texts(10, 15)


def test_a_topic_made_again_between_planning_and_reading_is_an_error(source: Source) -> None:
    source.numbers(0, 0, 5)
    core = source.stream()
    start = core.initial()
    end = core.latest(start, 0, 0)
    source.delete()
    source.create()
    source.numbers(0, 10, 15)
    with pytest.raises(DataLossError, match="was deleted and made again"):
        source.read(core, start, end)


def test_a_deleted_topic_is_an_error_or_left_out(source: Source) -> None:
    source.numbers(0, 0, 5)
    other = Source(source.broker)
    both = {"subscribe": f"{source.topic},{other.topic}"}
    core = source.stream(**both)
    start = core.latest(core.initial(), 0, 0)
    other.numbers(0, 5, 8)
    source.delete()
    end = core.latest(start, 0, 0)
    with pytest.raises(DataLossError, match=f"{source.topic}-0 does not exist any more"):
        source.read(core, start, end)
    careless = source.stream(failOnDataLoss="false", **both)
    assert source.read(careless, start, end) == texts(5, 8)


def test_without_topics_there_are_no_new_offsets(source: Source) -> None:
    """SPARK-41375: with empty offsets, what is made again would be new."""
    source.numbers(0, 0, 5)
    core = source.stream(failOnDataLoss="false")
    start = core.latest(core.initial(), 0, 0)
    source.delete()
    assert core.latest(start, 0, 0) is start
    source.create()
    source.numbers(0, 5, 8)
    assert source.read(core, start, core.latest(start, 0, 0)) == texts(5, 8)


def test_a_topic_deleted_while_its_offsets_are_asked_for(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found at first is not there any more when it is looked at; then topics are found anew."""
    from kwire.spark.source.positions import find_topics

    source.numbers(0, 0, 5)
    other = Source(source.broker)
    other.numbers(0, 5, 8)
    core = source.stream(subscribe=f"{source.topic},{other.topic}", failOnDataLoss="false")
    start = core.initial()
    found = 0

    async def late(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        topics = await find_topics(*args, **kwargs)
        found += 1
        if found == 1:
            await args[0].call(DeleteTopicsRequest(topics=[DeleteTopicState(name=source.topic)], timeout_ms=10000))
        return topics

    monkeypatch.setattr("kwire.spark.source.readers.find_topics", late)
    assert {*core.latest(start, 0, 0)} == {other.topic}
    assert found > 1


def test_a_new_topic_deleted_before_it_is_planned_is_an_error_or_left_out(source: Source) -> None:
    other = Source(source.broker)
    start = source.stream().initial()
    source.numbers(0, 0, 5)
    both = {"subscribe": f"{source.topic},{other.topic}"}
    end = source.stream(**both).latest(start, 0, 0)
    other.delete()
    with pytest.raises(DataLossError, match=f"{other.topic}-0 does not exist any more"):
        source.stream(**both).between(start, end)
    careless = source.stream(failOnDataLoss="false", **both)
    assert source.read(careless, start, end) == texts(0, 5)


def test_records_deleted_meanwhile_are_an_error_or_left_out(source: Source) -> None:
    source.numbers(0, 0, 10)
    core = source.stream()
    start = core.initial()
    end = core.latest(start, 0, 0)
    source.cut(0, 6)
    with pytest.raises(DataLossError, match="begins at offset 6, and 0 was to be read"):
        source.read(core, start, end)
    careless = source.stream(failOnDataLoss="false")
    assert source.read(careless, start, end) == texts(6, 10)
    source.cut(0, 10)
    assert source.read(careless, start, end) == []


def test_the_offsets_of_sparks_own_source_can_be_taken_over(source: Source) -> None:
    """They have no topic ids."""
    source.numbers(0, 0, 10)
    core = source.stream()
    start: Offsets = {source.topic: {"0": 4, "1": 0, "2": 0}}
    assert source.read(core, start, core.latest(start, 0, 0)) == texts(4, 10)


def test_before_pyspark_4_2_the_limit_is_kept_from_the_second_batch_on(source: Source) -> None:
    """Spark asks for the first end before it asks for the beginning; with Trigger.AvailableNow it asks only once."""
    source.numbers(0, 0, 100)
    reader = OldStreamReader(source.options({"maxOffsetsPerTrigger": "20"}, streaming=True))
    first = reader.latestOffset()
    (part,) = reader.partitions(reader.initialOffset(), first)
    assert values(list(reader.read(part))) == texts(0, 100)
    source.numbers(0, 100, 150)
    second = reader.latestOffset()
    (part,) = reader.partitions(first, second)
    assert values(list(reader.read(part))) == texts(100, 120)


def test_before_pyspark_4_2_the_limit_is_kept_after_a_restart(source: Source) -> None:
    """Spark then asks first for what lies between its last offset and itself."""
    source.numbers(0, 0, 100)
    reader = OldStreamReader(source.options({"maxOffsetsPerTrigger": "20"}, streaming=True))
    told = {source.topic: {"0": 40, "1": 0, "2": 0}}
    assert reader.partitions(told, told) == []
    (part,) = reader.partitions(told, reader.latestOffset())
    assert values(list(reader.read(part))) == texts(40, 60)
