"""Prometheus scrapes kwire; every expression of the dashboard and of the alert rules has data."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from compat_tests.needs import need
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker, wait_for, wait_until
from harness.processes.prometheus import Prometheus, prometheus, promtool, why_no_prometheus

MONITORING = ROOT / "monitoring"
METRIC = re.compile(r"\bk(?:afka|wire)_\w+\b")
REMARKED = {
    "kafka_consumergroup_lag_sum",
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    "kafka_log_logmanager_logdirectoryoffline",
    "kafka_server_socket_server_metrics_connection_count",
}
"""Some names of the JMX exporter and of kafka-exporter that promtool objects to."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus beside a broker whose clients produce, consume and commit. It has scraped twice at least."""
    need(why_no_prometheus())
    home = tmp_path_factory.mktemp("monitoring")
    broker = make_broker("kwire", home / "broker", {"kwire.metrics.listen": "127.0.0.1:0"})
    broker.start()
    address = metrics_address(broker)
    _use(broker.bootstrap)
    configuration = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(MONITORING / "alerts.yml")]
    configuration["scrape_configs"][0]["static_configs"][0]["targets"] = [address]
    with prometheus(home / "prometheus", yaml.safe_dump(configuration)) as server:
        server.await_data("count_over_time(kafka_brokers[1m]) >= 3")
        yield server
    broker.stop()


def metrics_address(broker: Broker) -> str:
    """HOST:PORT of its endpoint."""
    found = re.search(r'"url": "http://([^/"]+)/metrics"', broker.log_text())
    assert found is not None
    return found[1]


def _use(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(100):
        producer.produce("orders", f"{index}".encode())
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(50, 30)) == 50
    consumer.commit(asynchronous=False)
    consumer.close()


def expressions(job: str, interval: str) -> dict[str, str]:
    """The dashboard's expressions by panel, with its variables replaced."""
    panels = json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$job", job).replace("$__rate_interval", interval)
        for panel in panels
        for target in panel.get("targets", ())
    }


def test_every_panel_of_the_dashboard_has_data(scraped: Prometheus) -> None:
    for panel, expression in expressions("kafka", "1m").items():
        assert "$" not in expression, panel
        scraped.await_data(expression)


def test_the_figures_are_those_of_the_broker(scraped: Prometheus) -> None:
    scraped.await_value('sum(kafka_server_brokertopicmetrics_messagesin_total{topic="orders"})', 100)
    scraped.await_value('sum(kafka_consumergroup_lag{consumergroup="billing"})', 50)
    scraped.await_value("sum(kafka_controller_kafkacontroller_activecontrollercount)", 1)


def test_alert_rules_are_healthy_and_silent_and_their_metrics_exist(scraped: Prometheus) -> None:
    names = {rule["name"] for rule in scraped.rules()}
    assert len(names) >= 10
    wait_until(lambda: all(rule["health"] == "ok" for rule in scraped.rules()), 60, "evaluated rules", 0.2)

    def loud() -> list[str]:  # a scrape that was late may have made one pending
        return [f"{rule['name']} is {rule['state']}" for rule in scraped.rules() if rule["state"] != "inactive"]

    wait_for(loud, lambda alerts: not alerts, 60, "no alert", 0.2)
    for rule in scraped.rules():
        for name in METRIC.findall(rule["query"]):
            scraped.await_data(name)


def test_an_alert_fires_when_the_broker_goes_away(tmp_path: Path) -> None:
    need(why_no_prometheus())
    configuration = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "kafka", "static_configs": [{"targets": ["127.0.0.1:1"]}]}],
    }
    [rule] = [
        rule
        for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
        if rule["alert"] == "KafkaBrokerDown"
    ]
    with prometheus(tmp_path, yaml.safe_dump(configuration)) as server:
        server.await_data(rule["expr"])


def test_promtool_is_content_with_rules_and_configuration(scraped: Prometheus) -> None:
    for what, file in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        checked = promtool("check", what, str(MONITORING / file))
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("names", "status"), [("prometheus", 0), ("jmx", 3)])
def test_promtool_is_content_with_what_a_used_broker_serves(tmp_path: Path, names: str, status: int) -> None:
    need(why_no_prometheus())
    broker = make_broker("kwire", tmp_path, {"kwire.metrics.listen": "127.0.0.1:0", "kwire.metrics.names": names})
    broker.start()
    try:
        _use(broker.bootstrap)
        with urllib.request.urlopen(f"http://{metrics_address(broker)}/metrics", timeout=30) as response:
            text = response.read().decode()
    finally:
        broker.stop()
    checked = promtool("check", "metrics", stdin=text)
    assert checked.returncode == status, checked.stderr
    remarks = {line.split(" ", 1)[0] for line in checked.stderr.splitlines()}
    assert (remarks >= REMARKED) if status else (remarks == set())
