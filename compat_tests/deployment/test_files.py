"""The files in ``deploy/`` are what systemd, Docker and Kubernetes understand, and what kwire's brokers accept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from compat_tests.deployment import chart
from harness.paths import ROOT
from kwire.base.addresses import parse_address
from kwire.base.config import KafkaConfig

DEPLOY = ROOT / "deploy"
MANIFESTS = chart.RENDERED
SCHEMAS = ("1.27", "1.31", kubernetes_validate.latest_version())


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = (DEPLOY / "systemd" / "kwire.service").read_text()
    assert "ExecStart=/opt/kwire/bin/kwire start" in text
    unit = tmp_path / "kwire.service"
    unit.write_text(text.replace("/opt/kwire/bin/kwire", sys.executable))  # the program must exist
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yml").read_text())
    found: dict[str, Any] = compose["services"]
    return found


def brokers(services: dict[str, Any]) -> dict[str, KafkaConfig]:
    """What each broker of the compose file makes of its environment."""
    names = [name for name in services if name.startswith("broker-")]
    return {name: KafkaConfig.load(None, services[name]["environment"], []) for name in names}


def test_the_brokers_of_the_compose_file_are_one_cluster(services: dict[str, Any]) -> None:
    configs = brokers(services)
    assert [config.node_id for config in configs.values()] == [1, 2, 3]
    assert {config.zookeeper_connect for config in configs.values()} == {"zookeeper:2181/kwire"}
    for name, config in configs.items():
        inside, outside = config.advertised_endpoints()
        assert (inside.host, inside.port) == (name, 9092)
        listened = next(each.port for each in config.endpoints() if each.listener == outside.listener)
        assert services[name]["ports"] == [f"127.0.0.1:{outside.port}:{listened}"]


def test_prometheus_scrapes_each_broker_of_the_compose_file(services: dict[str, Any]) -> None:
    prometheus = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    expected = [
        f"{name}:{parse_address(config.kwire_metrics_listen or '').port}" for name, config in brokers(services).items()
    ]
    assert job["static_configs"] == [{"targets": expected}]


def test_files_that_the_compose_file_mounts_exist(services: dict[str, Any]) -> None:
    mounted = [each.split(":")[0] for service in services.values() for each in service.get("volumes", [])]
    files = [each for each in mounted if each.startswith(".")]
    assert len(files) == 2
    assert all((DEPLOY / "compose" / each).is_file() for each in files)


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


@pytest.mark.parametrize("version", SCHEMAS)
def test_the_manifests_are_valid(version: str) -> None:
    kinds = []
    for document in documents(MANIFESTS.read_text()):
        kubernetes_validate.validate(document, version, strict=True)
        kinds.append(document["kind"])
    assert sorted(kinds) == ["PodDisruptionBudget", "Service", "Service", "StatefulSet"]


def test_what_is_wrong_in_a_manifest_is_noticed() -> None:
    (stateful,) = [each for each in documents(MANIFESTS.read_text()) if each["kind"] == "StatefulSet"]
    stateful["spec"]["replica"] = stateful["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(stateful, SCHEMAS[-1], strict=True)


def test_the_pods_environment_is_a_brokers_configuration() -> None:
    (stateful,) = [each for each in documents(MANIFESTS.read_text()) if each["kind"] == "StatefulSet"]
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    script = container["command"][-1].replace("exec /etc/kafka/docker/run", "env")
    ended = subprocess.run(
        ["sh", "-euc", script],
        env={"PATH": os.environ["PATH"], **environment, "POD_NAME": "kwire-2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    config = KafkaConfig.load(None, dict(line.split("=", 1) for line in ended.stdout.splitlines()), [])
    assert config.node_id == 3
    (address,) = config.advertised_endpoints()
    assert str(address.host) == f"kwire-2.{stateful['spec']['serviceName']}.default.svc.cluster.local"
    assert not config.warnings
    assert config.kwire_metrics_listen == "0.0.0.0:9464"
    assert config.default_replication_factor == 3


def test_the_manifests_are_what_the_chart_gives() -> None:
    helm = chart.installed_helm()
    if helm is None:
        pytest.skip("needs Helm: python -m compat_tests.deployment.chart builds it with Go")
    assert documents(chart.render(helm)) == documents(MANIFESTS.read_text())
    words = ["--set", "storage.className=fast", "--set", "secrets={logins}", "--set", "nodeSelector.disk=ssd"]
    changed = documents(chart.render(helm, *words))
    for document in changed:
        kubernetes_validate.validate(document, SCHEMAS[-1], strict=True)
    text = yaml.safe_dump(changed)
    assert all(word in text for word in ("storageClassName: fast", "name: logins", "disk: ssd"))
