"""Fixtures of the PySpark tests: one Spark session for each test process, a filled topic, `Frames`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients.pyspark.first_session import prepare
from compat_tests.clients.pyspark.frames import FIRST_MS, PARTITIONS, RECORDS, Frames
from harness.processes.brokers import Broker

_PATIENCE_S = 300  # for a connection between Spark and Python; by default 15 s, too few on a busy machine

# The queries are short: code generation would cost more time than it saves.
_QUICK = {
    "spark_driver_memory": "512m",
    "spark_sql_codegen_wholeStage": "false",
    "spark_sql_adaptive_enabled": "false",
    "spark_python_authenticate_socketTimeout": f"{_PATIENCE_S}s",
}


@pytest.fixture(scope="session", autouse=True)
def prepared() -> None:
    """Spark's Kafka connector is downloaded, and every JVM of Spark starts quickly."""
    if shutil.which("java") is not None:  # the tests skip themselves
        prepare()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session that all tests of a process share."""
    from examples.spark_orders.pipeline import spark_session

    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = str(_PATIENCE_S)
    with contextlib.chdir(tmp_path_factory.mktemp("spark")):  # Spark creates folders in the current one
        session = spark_session("kwire compat tests", **_QUICK)
    yield session
    session.stop()


@pytest.fixture
def filled(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic of three partitions with one record per second: number i in partition i % 3."""
    topic = make_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    for number in range(RECORDS):
        producer.produce(
            topic,
            partition=number % PARTITIONS,
            key=None if number % 7 == 0 else f"k{number % 10}".encode(),
            value=None if number % 11 == 0 else f"v{number}".encode(),
            timestamp=FIRST_MS + number * 1000,
            headers=[("number", str(number).encode()), ("empty", None)],
        )
    assert producer.flush(30) == 0
    return topic


@pytest.fixture(params=["kafka", "kwire"], ids=["connector", "without-jars"])
def frames(request: pytest.FixtureRequest, spark: Any, broker: Broker, tmp_path: Path) -> Frames:
    """`Frames` on the broker under test, of Spark's connector and of kwire's source and sink."""
    return Frames(spark, broker.bootstrap, tmp_path, source=request.param, sink=request.param)
