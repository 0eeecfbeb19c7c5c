"""A small service as it might be anywhere: it takes orders from one topic and sends the paid ones to another."""

from __future__ import annotations

import json

from kafka import KafkaConsumer, KafkaProducer


def send_order(producer: KafkaProducer, topic: str, order: dict[str, object]) -> int:
    """Send one order and wait until the broker has it; its offset."""
    key = str(order["customer"]).encode()
    return int(producer.send(topic, json.dumps(order).encode(), key=key).get(timeout=10).offset)


def forward_paid(bootstrap_servers: str, group: str, source: str, target: str) -> int:
    """Send every paid order that is new in ``source`` to ``target``; how many these were."""
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    forwarded = 0
    while not has_read_all(consumer):
        for records in consumer.poll(timeout_ms=5000).values():  # returns at once when there are records
            for record in records:
                if json.loads(record.value)["paid"]:
                    producer.send(target, record.value, key=record.key)
                    forwarded += 1
    producer.close()  # sends what is still to be sent
    consumer.commit()
    consumer.close()
    return forwarded


def has_read_all(consumer: KafkaConsumer) -> bool:
    """Whether a consumer has its partitions, and has read them to their ends."""
    partitions = consumer.assignment()
    ends = consumer.end_offsets(list(partitions)) if partitions else {}
    return bool(ends) and all(consumer.position(partition) >= end for partition, end in ends.items())
