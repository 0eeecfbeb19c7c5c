"""The container image on a real Docker engine: built, started in the ways in which Kafka's images are started, stopped.

The tests use a running engine, or start the one that `harness/processes/docker_engine.py install` has prepared; without
either they skip and state the reason. testcontainers' own Kafka container is used unmodified.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.container.images import NoImage, build_kwire
from harness.processes import docker_engine
from harness.processes.brokers import wait_until
from harness.processes.ports import free_port
from kwire.testing import KwireContainer

IMAGE = "kwire-test:7.6.0"  # testcontainers requires a version like Confluent's for KRaft
LARGER_THAN_BASE_MB = 85
pytestmark = [
    # Warnings of docker-py and testcontainers themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[docker_engine.Engine]:
    """A running Docker engine."""
    if reason := docker_engine.why_not():
        pytest.skip(reason)
    with docker_engine.engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def image(engine: docker_engine.Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, built from the unchanged Dockerfile; from wheels if the base image comes from no registry."""
    started = time.monotonic()
    try:
        build_kwire(engine, IMAGE, tmp_path_factory.mktemp("context"))
    except NoImage as reason:
        pytest.skip(str(reason))
    print(f"docker build: {time.monotonic() - started:.1f} s")
    return IMAGE


@pytest.fixture
def run(engine: docker_engine.Engine, image: str) -> Iterator[Callable[..., str]]:
    """``docker run -d`` with these options; returns the container's id. Containers are removed after the test."""
    containers: list[str] = []

    def start(*options: str) -> str:
        containers.append(engine.docker("run", "-d", *options, image).strip())
        return containers[-1]

    yield start
    for container in containers:
        engine.docker("rm", "-f", "-v", container)


@pytest.fixture(autouse=True)
def testcontainers(engine: docker_engine.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make testcontainers use this engine, without its cleaner, whose image is in a registry."""
    from testcontainers.core.config import testcontainers_config

    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)


def inspect(engine: docker_engine.Engine, name: str) -> Any:
    """``docker inspect`` of an image or container."""
    return json.loads(engine.docker("inspect", name))[0]


def healthy(engine: docker_engine.Engine, container: str) -> bool:
    """Whether the container's health check succeeds."""
    return bool(inspect(engine, container)["State"]["Health"]["Status"] == "healthy")


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    """Produce values to a topic."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def receive(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Consume ``count`` values of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = [consumer.poll(20) for _ in range(count)]
    consumer.close()
    values = []
    for message in messages:
        assert message is not None, f"fewer than {count} messages within the time"
        values.append(message.value() or b"")
    return values


def round_trip(bootstrap: str) -> None:
    """Produce and consume two values."""
    send(bootstrap, "t", b"one", b"two")
    assert sorted(receive(bootstrap, "t", 2)) == [b"one", b"two"]  # there may be several partitions


# -- the image ---------------------------------------------------------------------------------------------------------


def test_the_image_is_small_and_not_root(engine: docker_engine.Engine, image: str) -> None:
    built, base = inspect(engine, image), inspect(engine, engine.base_image)
    added = (built["Size"] - base["Size"]) / 1e6
    print(f"the image adds {added:.0f} MB to its base of {base['Size'] / 1e6:.0f} MB")
    assert added < LARGER_THAN_BASE_MB
    assert built["Config"]["User"] == "1000"
    assert list(built["Config"]["Volumes"]) == ["/var/lib/kafka/data"]


def test_with_nothing_given_it_serves_port_9092(engine: docker_engine.Engine, run: Callable[..., str]) -> None:
    container = run()
    wait_until(lambda: healthy(engine, container), 40, "the health check", 0.2)
    ready, *announced = engine.docker("logs", container).splitlines()
    assert ready.startswith("kwire ready bootstrap=localhost:9092 pid=")
    assert announced == [
        "[KafkaServer id=1] started",
        "Kafka Server started",
        "Transitioning from RECOVERY to RUNNING",
    ]
    assert engine.docker("exec", container, "id", "-u").strip() == "1000"
    assert engine.docker("exec", container, "kwire", "ping").startswith("localhost:9092 is a Kafka broker")


def test_advertised_listeners_alone_are_enough(engine: docker_engine.Engine, run: Callable[..., str]) -> None:
    port = free_port()
    container = run("-p", f"127.0.0.1:{port}:{port}", "-e", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port}")
    wait_until(lambda: healthy(engine, container), 40, "the health check", 0.2)
    round_trip(f"127.0.0.1:{port}")


def test_a_mounted_file_is_read_and_the_environment_wins(
    engine: docker_engine.Engine, run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://:19092\nnum.partitions=many\nnode.id=7\n")
    tmp_path.chmod(0o755)
    container = run("-v", f"{tmp_path}:/mnt/shared/config:ro", "-e", "KAFKA_NUM_PARTITIONS=3")
    wait_until(lambda: healthy(engine, container), 40, "the health check", 0.2)
    assert "[KafkaServer id=7] started" in engine.docker("logs", container)


def test_a_wrong_property_ends_it_with_one_line(engine: docker_engine.Engine, run: Callable[..., str]) -> None:
    container = run("-e", "KAFKA_NUM_PARTITIONS=many")
    assert engine.docker("wait", container).strip() == "1"


def test_any_user_of_group_root_may_run_it(engine: docker_engine.Engine, run: Callable[..., str]) -> None:
    container = run("--user", "12345:0")
    wait_until(lambda: healthy(engine, container), 40, "the health check", 0.2)


def test_sigterm_stops_it_in_order_and_its_volume_keeps_the_data(
    engine: docker_engine.Engine, run: Callable[..., str]
) -> None:
    port = free_port()
    options = ("-p", f"127.0.0.1:{port}:{port}", "-e", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port}")
    volume = engine.docker("volume", "create").strip()
    try:
        first = run(*options, "-v", f"{volume}:/var/lib/kafka/data")
        wait_until(lambda: healthy(engine, first), 40, "the health check", 0.2)
        send(f"127.0.0.1:{port}", "kept", b"one", b"two")
        engine.docker("stop", "--time", "20", first)
        assert inspect(engine, first)["State"]["ExitCode"] == 0, "it was killed after 20 s"
        second = run(*options, "-v", f"{volume}:/var/lib/kafka/data")
        wait_until(lambda: healthy(engine, second), 40, "the health check", 0.2)
        assert receive(f"127.0.0.1:{port}", "kept", 2) == [b"one", b"two"]
        engine.docker("rm", "-f", second)
    finally:
        engine.docker("rm", "-f", first)
        engine.docker("volume", "rm", "-f", volume)


# -- testcontainers ----------------------------------------------------------------------------------------------------


def test_kwires_own_container(image: str) -> None:
    started = time.monotonic()
    with KwireContainer(image, properties={"num.partitions": "3"}) as kafka:
        print(f"KwireContainer started in {time.monotonic() - started:.1f} s")
        round_trip(kafka.get_bootstrap_server())
        metadata = AdminClient({"bootstrap.servers": kafka.get_bootstrap_server()}).list_topics("t", timeout=20)
        assert sorted(metadata.topics["t"].partitions) == [0, 1, 2]


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512")],
)
def test_kwires_own_container_with_security(
    engine: docker_engine.Engine, image: str, protocol: str, mechanism: str
) -> None:
    container = KwireContainer(image).with_security(protocol, mechanism, {"alice": 'a "secret" word$'})
    with container as kafka:
        options = kafka.librdkafka("alice")
        producer = Producer(options)
        producer.produce("t", b"message")
        assert producer.flush(60) == 0
        if mechanism:
            refused = Producer({**options, "sasl.password": "wrong"})
            with pytest.raises(KafkaException):
                refused.list_topics(timeout=5)
        name = kafka.get_wrapped_container().id
        assert engine.docker("exec", name, "/etc/kafka/docker/health").strip()


def test_kwires_own_container_tells_why_it_does_not_start(image: str) -> None:
    with pytest.raises(RuntimeError, match=r"has ended; its log:\nkwire: num\.partitions=many"):
        KwireContainer(image).with_property("num.partitions", "many").start(timeout=20)


@pytest.mark.parametrize("kraft", [False, True], ids=["as_with_zookeeper", "kraft"])
def test_the_kafka_container_of_testcontainers(image: str, kraft: bool) -> None:
    from testcontainers.community.kafka import KafkaContainer

    container = KafkaContainer(image)
    with container.with_kraft() if kraft else container as kafka:
        round_trip(kafka.get_bootstrap_server())


def test_the_start_of_javas_container_for_apaches_image(image: str) -> None:
    """The steps of org.testcontainers.kafka.KafkaContainer."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    script = "/tmp/testcontainers_start.sh"
    environment = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    container = DockerContainer(image, env=environment, ports=[9092])
    container.with_command(["sh", "-c", f"while [ ! -f {script} ]; do sleep 0.1; done; {script}"])
    with container:
        bootstrap = f"{container.get_container_host_ip()}:{container.get_exposed_port(9092)}"
        inside = container.get_wrapped_container().short_id
        advertised = f"PLAINTEXT://{bootstrap},BROKER://{inside}:9093"
        text = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\n/etc/kafka/docker/run \n"
        KwireContainer._put_file(container, script, text.encode())  # type: ignore[arg-type]
        wait_for_logs(container, ".*Transitioning from RECOVERY to RUNNING.*", timeout=30)
        round_trip(bootstrap)
