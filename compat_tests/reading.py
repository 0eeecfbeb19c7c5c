"""Reading with confluent-kafka: a partition to its end, and as a member of a group."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

POLL_S = 60.0


def partition_values(bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[bytes]:
    """The values of all records from the first offset to the end of the partition, at one isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(POLL_S)
            assert message is not None, f"no message within {POLL_S:g} s after {len(found)} records"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            value = message.value()
            assert value is not None
            found.append(value)
    finally:
        consumer.close()


def member_that_has_read(bootstrap: str, topic: str, group: str, protocol: str) -> Consumer:
    """A member of a group that has read ten messages of two partitions, and committed three of the first."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2)
    assert producer.flush(20) == 0
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, 30)) == 10
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    return consumer
