"""Topics of clusters that have just been started."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from harness.processes.brokers import wait_until


def create_topic(admin: Any, topic: NewTopic) -> None:
    """Create a topic. The last broker may be ready before the others see it."""

    def created() -> bool:
        try:
            admin.create_topics([topic])[topic.topic].result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_until(created, 30, f"enough brokers for topic {topic.topic}", 0.2)
