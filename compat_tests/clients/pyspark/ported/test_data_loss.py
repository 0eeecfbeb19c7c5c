"""Records that are gone, and ranges of one partition that several tasks read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import CONSUMER, DATA_LOSS, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream, numbers
from compat_tests.names import Names
from kwire.arrow.ranges import Range
from kwire.spark.source.options import SourceOptions
from kwire.spark.source.reading import read

Make = Callable[..., Stream]
RECORDS = 50
GONE = 31


def without_its_beginning(kafka: Kafka, topic: str) -> dict[str, Any]:
    """A topic that has lost records; the options of a query that begins with them."""
    kafka.create(topic)
    kafka.send(topic, range(RECORDS), 0)
    kafka.cut(topic, 0, GONE)
    return {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 0}}}}', "failOnDataLoss": "false"}


@pytest.mark.java
@original(
    DATA_LOSS,
    "failOnDataLoss=false should not return duplicated records: microbatch v1",
    "failOnDataLoss=false should not return duplicated records: microbatch v2",
)
def test_a_stream_has_what_is_left_once(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    options = without_its_beginning(kafka, new_name("t"))
    assert stream(source.read_stream(**options)).start().process().numbers == [*range(GONE, RECORDS)]


@pytest.mark.java
@pytest.mark.quick
@original(
    DATA_LOSS,
    "failOnDataLoss=false should not return duplicated records: batch v1",
    "failOnDataLoss=false should not return duplicated records: batch v2",
)
def test_a_batch_query_has_what_is_left_once(kafka: Kafka, source: Source, new_name: Names) -> None:
    options = without_its_beginning(kafka, new_name("t"))
    assert numbers(source.read(**options)) == [*range(GONE, RECORDS)]


@pytest.mark.java
@original(CONSUMER, "SPARK-19886: Report error cause correctly in throwOnDataLoss")
def test_an_error_names_what_is_gone(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = new_name("t")
    options = {**without_its_beginning(kafka, topic), "failOnDataLoss": "true"}
    cause = f"{topic}-0 begins at offset {GONE}, and 0 was to be read. Some data may have been lost"
    with pytest.raises(PySparkException, match=cause):
        source.read(**options).collect()


# -- tasks of one partition --------------------------------------------------------------------------------------


class Tasks:
    """What tasks read of a partition with the numbers 1 to 1000, each at the offset before it."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._topic = kafka.create(topic)
        kafka.send(topic, range(1, 1001), 0)
        options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
        self._options = SourceOptions.parse(options, streaming=True)

    def reading(self, start: int, end: int) -> Any:
        """The Arrow batches of a range, as they come."""
        return read(self._options, Range(self._topic, 0, start, end))

    def numbers(self, start: int, end: int) -> list[int]:
        """The numbers of a range, in order."""
        return values(self.reading(start, end))


def values(batches: Any) -> list[int]:
    return [int(value) for batch in batches for value in pa.RecordBatch.column(batch, "value").to_pylist()]


@pytest.fixture
def tasks(kafka: Kafka, new_name: Names) -> Tasks:
    return Tasks(kafka, new_name("t"))


@original(CONSUMER, "SPARK-23623: concurrent use of KafkaDataConsumer")
def test_many_tasks_at_the_same_time(tasks: Tasks) -> None:
    with ThreadPoolExecutor(20) as pool:
        for found in pool.map(lambda _: tasks.numbers(0, 1000), range(100)):
            assert found == [*range(1, 1001)]


@pytest.mark.quick
@original(CONSUMER, "SPARK-25151 Handles multiple tasks in executor fetching same (topic, partition) pair")
def test_two_tasks_in_turn(tasks: Tasks) -> None:
    """Neither gets what the other one has fetched."""
    assert tasks.numbers(0, 5) == [*range(1, 6)]
    assert tasks.numbers(300, 305) == [*range(301, 306)]
    assert tasks.numbers(5, 100) == [*range(6, 101)]
    assert tasks.numbers(305, 500) == [*range(306, 501)]


@original(
    CONSUMER,
    "SPARK-25151 Handles multiple tasks in executor fetching same (topic, partition) pair and same offset (edge-case)"
    " - data in use",
)
def test_a_task_begins_where_another_one_is(tasks: Tasks) -> None:
    first = tasks.reading(0, 100)
    begun = next(first)
    assert tasks.numbers(5, 100) == [*range(6, 101)]
    assert [*values([begun]), *values(first)] == [*range(1, 101)]


@original(
    CONSUMER,
    "SPARK-25151 Handles multiple tasks in executor fetching same (topic, partition) pair and same offset (edge-case)"
    " - data not in use",
)
def test_a_task_begins_where_another_one_has_ended(tasks: Tasks) -> None:
    first = tasks.reading(0, 100)
    next(first)
    first.close()
    assert tasks.numbers(5, 100) == [*range(6, 101)]
