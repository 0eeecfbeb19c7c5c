"""Topics that are created, grow, and are deleted or made again, while a stream reads them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, STRESS, STRESS_LOSS, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.names import Names

pytestmark = pytest.mark.java

Make = Callable[..., Stream]
SEED = 20261125


@original(MICRO_BATCH, "subscribing topic by pattern with topic deletions")
def test_another_topic_instead_of_a_deleted_one(
    strict: Kafka, strict_source: Source, stream: Make, new_name: Names
) -> None:
    prefix = new_name("t")
    topic = strict.create(f"{prefix}-seems", 5)
    strict.send(topic, [-1])
    found = stream(strict_source.read_stream(subscribePattern=f"{prefix}-.*", failOnDataLoss="false")).start().process()
    strict.send(topic, [1, 2, 3])
    assert found.process().numbers == [1, 2, 3]
    strict.delete(topic)
    strict.send(strict.create(f"{prefix}-bad", 5), [4, 5, 6])
    assert found.process().numbers == [1, 2, 3, 4, 5, 6]


@original(MICRO_BATCH, "SPARK-41375: empty partitions should not record to latest offset")
def test_no_topics_are_no_new_offsets(strict: Kafka, strict_source: Source, stream: Make, new_name: Names) -> None:
    prefix = new_name("t")
    topic = strict.create(f"{prefix}-good", 5)
    strict.send(topic, [-1])
    found = stream(strict_source.read_stream(subscribePattern=f"{prefix}-.*", failOnDataLoss="false")).start().process()
    strict.send(topic, [1, 2, 3])
    assert found.process().numbers == [1, 2, 3]
    strict.delete(topic)
    found.process()
    assert {*last_offsets(found.checkpoint)} == {topic}
    strict.create(topic, 5)
    strict.send(topic, [4, 5])
    assert found.process().numbers == [1, 2, 3, 4, 5]


@original(MICRO_BATCH, "subscribe topic by pattern with topic recreation between batches")
def test_a_topic_made_again_between_two_runs(
    strict: Kafka, strict_source: Source, stream: Make, new_name: Names
) -> None:
    prefix = new_name("t")
    good, bad = strict.create(f"{prefix}-good"), strict.create(f"{prefix}-bad")
    strict.send(good, [1, 3])
    strict.send(bad, [2, 4])
    found = stream(strict_source.read_stream(subscribePattern=f"{prefix}-.*", startingOffsets="earliest")).start()
    assert found.process().numbers == [1, 2, 3, 4]
    found.stop()
    strict.delete(bad)
    strict.create(bad)
    strict.send(bad, [6])
    with pytest.raises(StreamingQueryException, match=f"topic {bad} was deleted and made again"):
        found.start().process()
    assert found.numbers == [1, 2, 3, 4]


@original(MICRO_BATCH, "delete a topic when a Spark job is running")
def test_a_topic_deleted_by_a_task(strict: Kafka, strict_source: Source, new_name: Names, tmp_path: Path) -> None:
    """The task deletes the topic that it reads, and creates it again."""
    topic = strict.create(new_name("t"))
    strict.send(topic, range(1, 11))
    bootstrap = strict.bootstrap

    class Deleting:
        """Has no names of this module: Spark's Python processes cannot import it."""

        def open(self, _partition: int, epoch: int) -> bool:
            if epoch:  # the topic that was made again is another one, which is a batch of its own
                return True
            import time as clock

            from confluent_kafka import KafkaException as Refused
            from confluent_kafka.admin import AdminClient, NewTopic

            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
            for _ in range(300):
                try:
                    admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=30)[topic].result(30)
                    return True
                except Refused:  # its deletion is not complete yet
                    clock.sleep(0.1)
            return False

        def process(self, row: Any) -> None:
            pass

        def close(self, error: Any) -> None:
            pass

    frame = strict_source.read_stream(
        subscribe=topic,
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{"kafka.default.api.timeout.ms": "3000"},
    )
    writer = frame.writeStream.foreach(Deleting()).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None


@original(MICRO_BATCH, "cannot stop Kafka stream")
def test_a_stream_stops(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 5)
    kafka.send(topic, range(101, 106))
    found = stream(source.read_stream(subscribePattern=f"{topic}.*")).start().process()
    found.stop()
    assert not found.query.isActive
    assert found.query.exception() is None


@pytest.mark.timeout(900)
@original(STRESS, "stress test with multiple topics and partitions")
def test_stress_with_topics_and_partitions(strict: Kafka, strict_source: Source, stream: Make, new_name: Names) -> None:
    """At random topics are created and deleted, partitions added, the query stopped and started; nothing is lost."""
    chance, prefix, made = random.Random(SEED), new_name("stress"), 0

    def create() -> str:
        nonlocal made
        made += 1
        return strict.create(f"{prefix}-{made}", chance.randint(1, 6))

    topics = [create() for _ in range(5)]
    for topic in topics:
        strict.send(topic, range(101, 106))
    found = stream(strict_source.read_stream(subscribePattern=f"{prefix}-.*", failOnDataLoss="false")).start().process()
    expected: list[int] = []
    running = True
    for step in range(25):
        match chance.randrange(6):
            case 0:
                topics.append(create())
            case 1 if running and len(topics) > 1:
                found.process()
                strict.delete(topics.pop(chance.randrange(1, len(topics))))
            case 2:
                topic = chance.choice(topics)
                strict.grow(topic, strict.size(topic) + chance.randint(1, 6))
            case 3:
                found.stop()
                running = not running
                if running:
                    found.start()
            case _:
                pass
        values = [1000 * (step + 1) + number for number in range(chance.randint(1, 10))]
        strict.send(chance.choice(topics), values)
        expected += values
        if running and chance.random() < 0.5:
            assert found.process().numbers == sorted(expected), f"step {step}, seed {SEED}"
    if not running:
        found.start()
    assert found.process().numbers == sorted(expected), f"seed {SEED}"


@original(STRESS_LOSS, "stress test for failOnDataLoss=false")
def test_stress_without_regard_to_loss(strict: Kafka, strict_source: Source, stream: Make, new_name: Names) -> None:
    """Topics are created, deleted and made again, and records deleted, as fast as can be: the query goes on."""
    chance, prefix = random.Random(SEED), new_name("loss")
    there: list[str] = []
    gone: list[str] = []
    frame = strict_source.read_stream(
        subscribePattern=f"{prefix}-.*",
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{"kafka.default.api.timeout.ms": "3000"},
    )
    found = stream(frame, before=lambda _: time.sleep(chance.random() / 2)).start()
    end_s = time.monotonic() + 20
    while time.monotonic() < end_s:
        match chance.randrange(10):
            case 0:
                there.append(strict.create(f"{prefix}-{len(there) + len(gone)}"))
            case 1 if there:
                gone.append(there.pop(chance.randrange(len(there))))
                strict.delete(gone[-1])
            case 2 if gone:
                there.append(strict.create(gone.pop(chance.randrange(len(gone)))))
            case 3 if there:
                topic = chance.choice(there)
                strict.cut(topic, 0, chance.randint(0, strict.latest(topic)))
            case _:
                for topic in there:
                    strict.send(topic, [chance.randrange(10) for _ in range(chance.randrange(10))])
        found.check()
    found.process()
    found.stop()
    assert found.query.exception() is None
    assert found.numbers, "something has been read"


def last_offsets(checkpoint: Path) -> dict[str, Any]:
    """The offsets of the last batch in a checkpoint."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    found: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
    return found
