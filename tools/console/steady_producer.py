"""A producer that sends a record every millisecond, each in a request of its own, and prints its latencies as JSON.

    python -m tools.console.steady_producer 127.0.0.1:9092 TOPIC RECORDS RATE

The schedule does not wait for responses. A latency is the time from `produce` to the acknowledgement, as librdkafka
measures it in its own thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

SIZE: Final = 100
FLUSH_S: Final = 120.0


def latencies_ms(bootstrap: str, topic: str, records: int, rate: float) -> list[float]:
    """The latency of each record. `RuntimeError` if one is not acknowledged."""
    found: list[float] = []
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        latency_s = message.latency()
        if error is None and latency_s is not None:
            found.append(latency_s * 1000)
        else:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    producer.produce(topic, b"connects", on_delivery=delivered)
    producer.flush(FLUSH_S)
    found.clear()
    value, began_s = os.urandom(SIZE), time.monotonic()
    for number in range(records):
        while (left_s := began_s + number / rate - time.monotonic()) > 0:
            producer.poll(left_s)
        producer.produce(topic, value, on_delivery=delivered)
    producer.flush(FLUSH_S)
    if failures or len(found) != records:
        raise RuntimeError(f"{len(found)} of {records} records acknowledged: {failures[:1]}")
    return found


def main() -> int:
    """Send and print."""
    bootstrap, topic, records, rate = sys.argv[1:]
    found = sorted(latencies_ms(bootstrap, topic, int(records), float(rate)))
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    print(json.dumps({name: round(found[int(len(found) * share)], 3) for name, share in shares.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
