"""One client that sends records at a steady rate, with acks=all and its own defaults otherwise; a process of its own.

    python -m tools.cluster_benchmark.producer CLIENT BOOTSTRAP TOPIC RATE FILE

For every record that is acknowledged, or given up, FILE gets a line: its number, the moment (nanoseconds of the
system's monotonic clock), its offset or the error. It finishes the records in flight and ends as soon as there is
something to read on standard input. `SteadyProducer.java` does the same with Java's client.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

LINGER_S = 60.0


class Schedule:
    """The times at which records are due, until the end is signalled."""

    def __init__(self, rate: int) -> None:
        self._interval_s = 1 / rate
        self._begun_s = time.monotonic()

    def wait_s(self, number: int) -> float:
        """How long until this record is due."""
        return max(self._begun_s + number * self._interval_s - time.monotonic(), 0.0)

    @staticmethod
    def is_over() -> bool:
        """Whether standard input was closed, which ends the run."""
        return bool(select.select([sys.stdin], [], [], 0)[0])


def value(number: int) -> bytes:
    """The value of a record: its number, padded to 100 bytes."""
    return str(number).encode().ljust(100)


def report(out: IO[str], number: int, outcome: object) -> None:
    """Write a line: the number of a record, the monotonic time in nanoseconds, and the outcome."""
    out.write(f"{number} {time.monotonic_ns()} {outcome}\n")


def numbers(schedule: Schedule) -> Iterator[int]:
    """The numbers of the records, until the schedule is over."""
    number = 0
    while not schedule.is_over():
        yield number
        number += 1


def librdkafka(bootstrap: str, topic: str, rate: int, out: IO[str]) -> None:
    """confluent-kafka."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    schedule = Schedule(rate)
    for number in numbers(schedule):

        def reported(error: Any, message: Any, number: int = number) -> None:
            report(out, number, message.offset() if error is None else error.name())

        end = time.monotonic() + schedule.wait_s(number)
        while (left := end - time.monotonic()) > 0:
            producer.poll(left)
        producer.produce(topic, value(number), partition=0, on_delivery=reported)
        producer.poll(0)
    producer.flush(LINGER_S)


def kafka_python(bootstrap: str, topic: str, rate: int, out: IO[str]) -> None:
    """kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.partitions_for(topic)
    schedule = Schedule(rate)
    for number in numbers(schedule):
        time.sleep(schedule.wait_s(number))
        future = producer.send(topic, value(number), partition=0)
        future.add_callback(lambda metadata, number=number: report(out, number, metadata.offset))
        future.add_errback(lambda error, number=number: report(out, number, type(error).__name__))
    producer.flush(LINGER_S)


def aiokafka(bootstrap: str, topic: str, rate: int, out: IO[str]) -> None:
    """aiokafka."""
    asyncio.run(_aiokafka(bootstrap, topic, rate, out))


async def _aiokafka(bootstrap: str, topic: str, rate: int, out: IO[str]) -> None:
    from aiokafka import AIOKafkaProducer

    def reported(future: asyncio.Future[Any], number: int) -> None:
        error = future.exception()
        report(out, number, future.result().offset if error is None else type(error).__name__)

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    schedule = Schedule(rate)
    for number in numbers(schedule):
        await asyncio.sleep(schedule.wait_s(number))
        future = await producer.send(topic, value(number), partition=0)
        future.add_done_callback(lambda done, number=number: reported(done, number))
    await asyncio.wait_for(producer.stop(), LINGER_S)


CLIENTS = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    with open(sys.argv[5], "w", buffering=1) as file:
        CLIENTS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), file)
