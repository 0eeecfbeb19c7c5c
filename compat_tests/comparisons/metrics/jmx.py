"""The JMX exporter as an agent of Apache Kafka, with the rules of its published example for KRaft.

The example's patterns are facts about names; here they are made from the parts they have in common: how many keys
follow the name, and which attribute is read. The order matters: the first rule that matches names the series.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.kafka_jars import maven_jars

VERSION: Final = "1.0.1"
_BEAN: Final = r"kafka.(\w+)<type=(.+), name=(.+)"
_NAME: Final = "kafka_$1_$2_$3"


def agent() -> Path:
    """The agent's jar, from Maven Central. `JarsUnavailable`."""
    artifact = ("io.prometheus.jmx", "jmx_prometheus_javaagent", VERSION)
    folder = maven_jars(f"jmx-exporter-{VERSION}", "the JMX exporter", [artifact])
    return folder / f"jmx_prometheus_javaagent-{VERSION}.jar"


def rules() -> str:
    """The agent's configuration: JSON is YAML."""
    return json.dumps({"lowercaseOutputName": True, "rules": list(_rules())})


def _rules() -> Iterator[dict[str, Any]]:
    server = "kafka.server<type=(.+)"
    yield _rule(
        f"{server}, name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        "kafka_server_$1_$2",
        clientId="$3",
        topic="$4",
        partition="$5",
    )
    yield _rule(
        f"{server}, name=(.+), clientId=(.+), brokerHost=(.+), brokerPort=(.+)><>Value",
        "kafka_server_$1_$2",
        clientId="$3",
        broker="$4:$5",
    )
    yield _rule(r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_$1_$2_$3")
    state = "kafka_server_raft_metrics_current_state_info"
    yield {**_rule("kafka.server<type=raft-metrics><>current-state: ([a-z]+)", state, state="$1"), "value": 1}
    yield _rule(f"{server}><>([a-z-]+)-total", "kafka_server_$1_$2_total", "COUNTER")
    yield _rule(f"{server}><>([a-z-]+)", "kafka_server_$1_$2")
    yield from _with_keys(r"PerSec\w*", "Count", f"{_NAME}_total", "COUNTER")
    for keys, labels in (
        (", user=(.+), client-id=(.+)", {"user": "$2", "clientId": "$3"}),
        (", client-id=(.+)", {"clientId": "$2"}),
        (", user=(.+)", {"user": "$2"}),
    ):
        attribute = f"kafka_server_quota_${len(labels) + 2}"
        yield _rule(f"{server}{keys}><>([a-z-]+)", attribute, resource="$1", **labels)
    yield from _with_keys("", "Value", _NAME)
    for count in (2, 1, 0):
        yield _keyed(count, "", "Count", f"{_NAME}_count", "COUNTER")
        quantile = _keyed(count, "", r"(\d+)thPercentile", _NAME)
        quantile["labels"] = {**quantile.get("labels", {}), "quantile": f"0.${4 + 2 * count}"}
        yield quantile
    yield _keyed(0, r"Percent\w*", "MeanRate", f"{_NAME}_percent")
    yield _keyed(0, r"Percent\w*", "Value", f"{_NAME}_percent")
    yield _keyed(1, r"Percent\w*", "Value", f"{_NAME}_percent")


def _with_keys(suffix: str, attribute: str, name: str, kind: str = "GAUGE") -> Iterator[dict[str, Any]]:
    for count in (2, 1, 0):
        yield _keyed(count, suffix, attribute, name, kind)


def _keyed(count: int, suffix: str, attribute: str, name: str, kind: str = "GAUGE") -> dict[str, Any]:
    labels = {f"${4 + 2 * each}": f"${5 + 2 * each}" for each in range(count)}
    return _rule(f"{_BEAN}{suffix}{', (.+)=(.+)' * count}><>{attribute}", name, kind, **labels)


def _rule(pattern: str, name: str, kind: str = "GAUGE", **labels: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"pattern": pattern, "name": name, "type": kind}
    return {**rule, "labels": labels} if labels else rule
