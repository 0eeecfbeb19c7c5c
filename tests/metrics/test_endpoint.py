"""``kwire.metrics.listen``: what Prometheus gets from a running broker, and from several."""

from __future__ import annotations

import base64
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from harness.processes.brokers import Broker, make_broker, wait_until
from tests.metrics.otlp_receiver import Receiver

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def get(url: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
    """Status and content."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def url_of(broker: Broker) -> str:
    """Where a broker says that it serves metrics."""
    found = re.search(r'"url": "([^"]+)"', broker.log_text())
    assert found is not None
    return found[1]


def series(text: str) -> Series:
    """The samples by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with two topics; a group has read one of them in part."""
    settings = {"kwire.metrics.listen": "127.0.0.1:0", "kwire.metrics.topics": "orders"}
    made = make_broker("kwire", tmp_path_factory.mktemp("broker"), settings)
    made.start()
    admin = AdminClient({"bootstrap.servers": made.bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in ("orders", "others")]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": made.bootstrap})
    for index in range(10):
        producer.produce("orders", b"v", partition=index % 2)
        producer.produce("others", b"v", partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": made.bootstrap, "group.id": "billing"})
    offsets = [TopicPartition("orders", 0, 2), TopicPartition("others", 0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    yield made
    made.stop()


def test_topics_partitions_groups_and_requests_have_series(broker: Broker) -> None:
    status, text = get(url_of(broker))
    found = series(text)
    assert status == 200
    assert found[key("kafka_server_brokertopicmetrics_messagesin_total", topic="orders")] == 10
    assert found[key("kafka_server_brokertopicmetrics_messagesin_total")] >= 20  # and those of coordinators
    assert found[key("kafka_log_log_logendoffset", topic="orders", partition="1")] == 5
    assert found[key("kafka_cluster_partition_insyncreplicascount", topic="orders", partition="0")] == 1
    assert found[key("kafka_topic_partitions", topic="orders")] == 2
    assert found[key("kafka_topic_partition_current_offset", topic="orders", partition="0")] == 5
    assert found[key("kafka_consumergroup_lag", consumergroup="billing", topic="orders", partition="0")] == 3
    assert found[key("kafka_consumergroup_members", consumergroup="billing")] == 0
    assert found[key("kafka_brokers")] == 1
    assert found[key("kafka_controller_kafkacontroller_activecontrollercount")] == 1
    assert found[key("kafka_network_requestmetrics_totaltimems_count", request="Produce")] >= 1
    assert key("kafka_network_requestmetrics_totaltimems", request="Produce", quantile="0.99") in found


def test_only_the_topics_that_are_wanted_have_series_of_their_own(broker: Broker) -> None:
    found = series(get(url_of(broker))[1])
    assert {dict(labels).get("topic") for _, labels in found} == {None, "orders"}
    assert found[key("kafka_controller_kafkacontroller_globaltopiccount")] >= 2  # all are counted


def test_openmetrics_is_served_to_those_who_want_it(broker: Broker) -> None:
    status, text = get(url_of(broker), Accept=OPENMETRICS)
    assert status == 200 and text.endswith("# EOF\n")
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {"kafka_brokers", "kafka_log_log_size"}


def test_a_large_response_is_compressed_for_those_who_understand_it(broker: Broker) -> None:
    request = urllib.request.Request(url_of(broker), headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert response.read(2) == b"\x1f\x8b"


def test_health_and_readiness(broker: Broker) -> None:
    base = url_of(broker).removesuffix("/metrics")
    assert get(f"{base}/healthz") == (200, "ok\n")
    assert get(f"{base}/readyz") == (200, "ok\n")
    assert get(f"{base}/other")[0] == 404
    request = urllib.request.Request(f"{base}/healthz", method="HEAD")
    with urllib.request.urlopen(request, timeout=20) as response:
        assert (response.status, response.headers["Content-Length"], response.read()) == (200, "3", b"")


def test_connections_beyond_the_limit_are_closed_and_take_nobody_s_place(broker: Broker) -> None:
    host, port = url_of(broker).removeprefix("http://").removesuffix("/metrics").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(40)]
    refused = 0
    for connection in silent[16:]:
        connection.settimeout(20)
        refused += connection.recv(1) == b""
    assert refused == 24
    for connection in silent:
        connection.close()
    wait_until(lambda: _answers(url_of(broker)), 20, "an answer")


def _answers(url: str) -> bool:
    try:
        return get(url)[0] == 200
    except (OSError, http.client.HTTPException):  # it may end in the middle of an answer
        return False


def test_a_killed_broker_takes_its_endpoint_with_it(tmp_path: Path) -> None:
    broker = make_broker("kwire", tmp_path, {"kwire.metrics.listen": "127.0.0.1:0"})
    broker.start()
    url = url_of(broker)
    assert get(url)[0] == 200
    broker.kill()
    wait_until(lambda: not _answers(url), 20, "the end of the endpoint")


def test_one_address_serves_all_brokers_of_a_cluster(tmp_path: Path, receiver: Receiver) -> None:
    command = [sys.executable, "-m", "kwire", "start", "--brokers", "2", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path), "--set", "kwire.metrics.listen=127.0.0.1:0"]
    command += ["--set", f"kwire.metrics.otel.endpoint={receiver.url}", "--set", "kwire.metrics.otel.interval.ms=200"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    status = 0
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        bootstrap = ready.split("bootstrap=")[1].split()[0]
        found = re.search(r'"url": "([^"]+)"', (tmp_path / "log").read_text())
        assert found is not None
        url = found[1]
        assert get(url.replace("/metrics", "/readyz")) == (200, "ok\n")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 4, 2)])["t"].result(30)
        producer = Producer({"bootstrap.servers": bootstrap})
        for index in range(8):
            producer.produce("t", b"v", partition=index % 4)
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", index, 1) for index in range(4)], asynchronous=False)
        consumer.close()
        samples = series(get(url)[1])
        sums = {name: [value for (each, _), value in samples.items() if each == name] for name, _ in samples}
        assert sums["kafka_server_brokertopicmetrics_messagesin_total"]
        assert {dict(labels)["broker"] for _, labels in samples} == {"1", "2"}
        assert sums["kafka_consumergroup_lag"] == [1, 1, 1, 1]  # of its coordinator only
        assert len(sums["kafka_log_log_size"]) >= 8
        assert sum(sums["kafka_controller_kafkacontroller_activecontrollercount"]) == 1
        assert sums["kafka_topic_partitions"].count(4) == 1
        assert sums["kafka_consumergroup_lag_sum"] == [4]
        assert {dict(labels)["id"] for name, labels in samples if name == "kafka_broker_info"} == {"1", "2"}
        assert len(sums["process_open_fds"]) == 2
        wait_until(lambda: {"1", "2"} <= receiver.instances(), 30, "pushes of both brokers")
        _kill_a_broker(process.pid)
        status = 1
        wait_until(lambda: get(url.replace("/metrics", "/healthz"))[0] == 503, 20, "the loss of a broker")
        left = series(get(url)[1])
        assert len({dict(labels)["broker"] for _, labels in left}) == 1
    finally:
        process.terminate()
        assert process.wait(60) == status
        assert process.stdout is not None
        process.stdout.close()
    assert not _answers(url)


def _kill_a_broker(supervisor: int) -> None:
    """Kill one of the processes that a supervisor has started: a broker, not the one that renders metrics."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    broker = next(
        each for each in children if b"kwire.metrics" not in Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
    )
    os.kill(int(broker), signal.SIGKILL)


def test_https_and_a_password(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    settings = {
        "kwire.metrics.listen": "127.0.0.1:0",
        "kwire.metrics.ssl.certificate.location": str(tmp_path / "certificate.pem"),
        "kwire.metrics.ssl.key.location": str(tmp_path / "key.pem"),
        "kwire.metrics.username": "prometheus",
        "kwire.metrics.password": "planted-metrics-password",
    }
    broker = make_broker("kwire", tmp_path / "broker", settings)
    broker.start()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    url = url_of(broker)
    assert url.startswith("https://")
    assert get(url, context)[0] == 401
    with pytest.raises(OSError):
        get(url.replace("https://", "http://"))
    for user, status in (("prometheus:wrong", 401), ("prometheus:planted-metrics-password", 200)):
        login = base64.b64encode(user.encode()).decode()
        assert get(url, context, Authorization=f"Basic {login}")[0] == status
    broker.stop()
    assert "planted-metrics-password" not in broker.log_text()


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"kwire.metrics.listen": "no address"}, "must be HOST:PORT"),
        ({"kwire.metrics.listen": "192.0.2.1:9464"}, "kwire.metrics.listen=192.0.2.1:9464: Cannot assign"),
        ({"kwire.metrics.listen": "127.0.0.1:0", "kwire.metrics.username": "u"}, "kwire.metrics.password"),
        ({"kwire.metrics.topics": "("}, "must be a regular expression"),
        (
            {
                "kwire.metrics.listen": "127.0.0.1:0",
                "kwire.metrics.ssl.key.location": "nowhere.pem",
                "kwire.metrics.ssl.certificate.location": "nowhere.pem",
            },
            "nowhere.pem: No such file",
        ),
    ],
    ids=["no address", "not ours", "no password", "no expression", "no certificate"],
)
def test_wrong_settings_are_told_in_a_line(properties: dict[str, str], reason: str, tmp_path: Path) -> None:
    words = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "kwire", "start", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert reason in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
