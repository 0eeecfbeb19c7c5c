"""What a client over its quota costs others: nothing that the same bytes without a quota would not cost.

    .venv/bin/python -m compat_tests.comparisons.throttling.bystander --seconds 10 --rounds 5

On each broker, a client without a limit produces one record after the other beside another process that produces
`RATE` bytes per second: in turns because a quota limits it to that, though it would send all it can, and because it
sends no more by itself, without a quota. A line of JSON for each broker has the 99th percentiles of all rounds, and of
rounds without the other process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from compat_tests.comparisons.data.requests import Topic
from compat_tests.comparisons.throttling.rates import RECORD_BYTES, Bystander, create_topics
from harness.processes.brokers import make_broker
from harness.wire_client import WireClient
from kwire.quotas.entities import CLIENT_ID, PRODUCER_BYTE_RATE

RATE: Final = 400_000
WARM_UP_S: Final = 12
"""Longer than the windows of quotas."""

LIMITED, PACED = "limited", "paced"

PROGRAM: Final = """
import sys, time
from confluent_kafka import Producer
bootstrap, client_id, rate, size = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "linger.ms": 5, "batch.size": 16384})
started, sent = time.monotonic(), 0
while True:
    try:
        producer.produce("noise", bytes(size))
        sent += size
    except BufferError:
        producer.poll(0.1)
    producer.poll(0)
    if rate:
        time.sleep(max(0.0, started + sent / rate - time.monotonic()))
"""


@contextmanager
def noise(bootstrap: str, kind: str) -> Iterator[None]:
    """The other process, after its warm-up."""
    rate = "0" if kind == LIMITED else str(RATE)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, bootstrap, kind, rate, str(RECORD_BYTES)])
    try:
        time.sleep(WARM_UP_S)
        yield
    finally:
        process.kill()
        process.wait()


def measure(bootstrap: str, seconds: float, rounds: int) -> dict[str, list[float]]:
    """The 99th percentiles in milliseconds, by what else the broker has to do."""
    found: dict[str, list[float]] = {"alone": [], PACED: [], LIMITED: []}
    wire = Wire(bootstrap)
    Quotas(wire).alter(({CLIENT_ID: LIMITED}, {PRODUCER_BYTE_RATE: RATE}))
    wire.close()
    with WireClient(bootstrap, "bystander") as client:
        topic = Topic(client, "other")
        Bystander(topic).p99_ms(seconds)  # a JVM compiles meanwhile
        for _ in range(rounds):
            found["alone"].append(Bystander(topic).p99_ms(seconds))
            for kind in (PACED, LIMITED):
                with noise(bootstrap, kind):
                    found[kind].append(Bystander(topic).p99_ms(seconds))
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for kind in ("kafka", "kwire"):
        with tempfile.TemporaryDirectory() as home:
            broker = make_broker(kind, Path(home))
            broker.start()
            try:
                create_topics(broker.bootstrap, "noise", "other")
                found = measure(broker.bootstrap, arguments.seconds, arguments.rounds)
            finally:
                broker.kill()
        medians = {name: median(each) for name, each in found.items()}
        print(json.dumps({"broker": kind, "median p99, ms": medians, "p99, ms": found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
