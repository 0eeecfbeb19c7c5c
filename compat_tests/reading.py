"""Reading a partition to its end with confluent-kafka."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

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
