"""Write orders to Kafka with an idempotent librdkafka producer, at a steady rate.

    python -m examples.spark_orders.producer --bootstrap localhost:9092 --count 1000000 --rate 25000

Ends when every order is acknowledged by all in-sync replicas; a refused order ends it with status 1.
"""

from __future__ import annotations

import argparse
import sys
import time

from examples.spark_orders import orders

CHUNK = 500
"""Orders between two looks at the clock."""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.spark_orders.producer", description="Write orders to Kafka."
    )
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=25_000, help="orders a second")
    options = parser.parse_args(arguments)
    failed = write(options.bootstrap, options.topic, options.seed, options.count, options.rate)
    if failed:
        print(f"{failed} of {options.count} orders were not acknowledged", file=sys.stderr)
    return 1 if failed else 0


def write(bootstrap: str, topic: str, seed: int, count: int, rate: int) -> int:
    """Write the first ``count`` orders of a seed; return how many were refused."""
    from confluent_kafka import Producer  # only this command needs it

    failed = 0

    def delivered(error: object, _: object) -> None:
        nonlocal failed
        failed += error is not None

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
        }
    )
    started = time.monotonic()
    for number in range(count):
        if number % CHUNK == 0:
            producer.poll(max(0.0, started + number / rate - time.monotonic()))
        while True:
            try:
                value = orders.order(seed, number)
                producer.produce(
                    topic,
                    value=orders.order_json(value),
                    key=str(value.customer_id).encode(),
                    timestamp=value.time_ms,
                    headers=[("source", b"examples.spark_orders")],
                    on_delivery=delivered,
                )
                break
            except BufferError:  # the broker is slower than the rate: wait for room
                producer.poll(0.1)
    return failed + int(producer.flush(120))


if __name__ == "__main__":
    sys.exit(main())
