"""Run deploy/compose/compose.yml as it is, on a real Docker engine: three brokers, ZooKeeper, the console, Prometheus.

    .venv/bin/python -m compat_tests.deployment.compose

It needs root or a Docker engine that runs (`harness/processes/docker_engine.py install` prepares one), and Go or Docker
Compose. Images that the file takes from a registry are built here under their names. It takes some minutes the first
time, and is therefore not a part of the tests that run on CI; docs/DEPLOYMENT.md has the last result.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.container.images import NoImage, build_kwire, build_prometheus, build_zookeeper
from harness.kafka_jars import cache_root
from harness.paths import ROOT
from harness.processes import docker_engine
from harness.processes.brokers import wait_until

COMPOSE: Final = "github.com/docker/compose/v2"
VERSION: Final = "v2.39.4"
BUILD_S: Final = 1800
PATIENCE_S: Final = 180.0
FILE: Final = ROOT / "deploy" / "compose" / "compose.yml"
OUTSIDE: Final = "localhost:19092,localhost:29092,localhost:39092"
CONSOLE: Final = "http://localhost:9021"
PROMETHEUS: Final = "http://localhost:9090"
IMAGES: Final[dict[str, Callable[[docker_engine.Engine, str, Path], None]]] = {
    "kwire:local": lambda engine, tag, context: build_kwire(engine, tag, context, "console,metrics,zookeeper"),
    "zookeeper:3.9": build_zookeeper,
    "prom/prometheus:v3.5.0": build_prometheus,
}


def compose_program() -> str:
    """Docker Compose: the one in PATH, or one that Go builds once (some minutes)."""
    built = cache_root() / "docker" / "docker-compose"
    if found := shutil.which("docker-compose"):
        return found
    if not built.exists():
        _build_compose(built)
    return str(built)


def _build_compose(program: Path) -> None:
    """Build it in a copy of its module: what it replaces of other modules counts in its own folder only."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["go", "mod", "init", "build"], cwd=folder, check=True, capture_output=True)
        command = ["go", "mod", "download", "-json", f"{COMPOSE}@{VERSION}"]
        told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=BUILD_S)
        shutil.copytree(json.loads(told.stdout)["Dir"], folder / "source")
        subprocess.run(["chmod", "-R", "u+w", "source"], cwd=folder, check=True)
        program.parent.mkdir(parents=True, exist_ok=True)
        flags = f"-s -w -X {COMPOSE}/internal.Version={VERSION}"
        build = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(program), "./cmd"]
        environment = {**os.environ, "CGO_ENABLED": "0"}
        subprocess.run(build, cwd=folder / "source", env=environment, check=True, timeout=BUILD_S)


class Project:
    """The services of the compose file."""

    def __init__(self, engine: docker_engine.Engine) -> None:
        self._environment = {**os.environ, "DOCKER_HOST": engine.host, "COMPOSE_PROGRESS": "quiet"}
        self._command = [compose_program(), "-f", str(FILE)]

    def run(self, *words: str) -> str:
        """What a command of Docker Compose prints. RuntimeError with its output if it fails."""
        command = [*self._command, *words]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout


def get(url: str) -> Any:
    """The JSON of a response."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def kwire(*words: str, stdin: str = "") -> str:
    """What a command of kwire prints, at the ports that the compose file publishes."""
    command = [sys.executable, "-m", "kwire", *words, "-b", OUTSIDE]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


def check_brokers() -> str:
    """Three brokers, one cluster; a message with acks=all is read back."""
    wait_until(lambda: _brokers() == 3, PATIENCE_S, "three brokers", 1.0)
    kwire("topic", "create", "orders", "--partitions", "3")
    [topic] = json.loads(kwire("topic", "describe", "orders", "-o", "json"))
    assert all(len(each["isr"]) == 3 for each in topic["partitions"]), topic
    kwire("produce", "orders", "-k", ":", stdin="alice:12\nbob:7\n")
    assert sorted(kwire("consume", "orders", "--until-end", "-f", "%k %v\\n").splitlines()) == ["alice 12", "bob 7"]
    return "three brokers hold each partition; messages are written and read through the published ports"


def _brokers() -> int:
    with suppress(KafkaException):
        return len(AdminClient({"bootstrap.servers": OUTSIDE, "log_level": 0}).list_topics(timeout=5).brokers)
    return 0


def check_console(project: Project) -> str:
    """The URL of its log lists the topic; without the token it is 401."""
    found = re.search(r"kwire console ready url=http://localhost:9021/\?token=(\S+)", project.run("logs", "console"))
    assert found is not None, project.run("logs", "console")
    names = [each["name"] for each in get(f"{CONSOLE}/api/topics?token={found[1]}")]
    assert "orders" in names, names
    try:
        get(f"{CONSOLE}/api/topics")
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == 401
    else:
        raise AssertionError("the console needs no token")
    return "the console lists the topic, and needs its token"


def check_prometheus() -> str:
    """It scrapes all three brokers, and has loaded the alert rules."""
    wait_until(lambda: _up() == 3, PATIENCE_S, "Prometheus to scrape three brokers", 1.0)
    rules = get(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
    assert rules
    assert all(rule["health"] != "err" for group in rules for rule in group["rules"]), rules
    return "Prometheus scrapes three brokers and has the alert rules"


def _up() -> int:
    with suppress(OSError):
        return sum(each["value"][1] == "1" for each in get(f"{PROMETHEUS}/api/v1/query?query=up")["data"]["result"])
    return 0


def check_lost_broker(project: Project) -> str:
    """One broker is killed: writing goes on; it comes back and catches up."""
    project.run("kill", "broker-2")
    producer = Producer({"bootstrap.servers": OUTSIDE, "acks": "all", "message.timeout.ms": 120_000, "log_level": 0})
    failed: list[object] = []
    for number in range(300):
        producer.produce(
            "orders", b"%d" % number, partition=number % 3, on_delivery=lambda error, _: failed.append(error)
        )
    assert producer.flush(150) == 0
    assert not any(failed), failed
    project.run("up", "-d", "--no-build", "broker-2")
    wait_until(_all_in_sync, PATIENCE_S, "broker 2 to catch up", 1.0)
    lines = kwire("consume", "orders", "--until-end", "-f", "%v\\n").splitlines()
    assert len(lines) == 302, len(lines)
    return "a broker is killed: 300 messages with acks=all are written meanwhile, it comes back and catches up"


def _all_in_sync() -> bool:
    with suppress(subprocess.CalledProcessError):
        [topic] = json.loads(kwire("topic", "describe", "orders", "-o", "json"))
        return all(len(each["isr"]) == 3 for each in topic["partitions"])
    return False


def run() -> None:
    """Build the images, start everything, check it, and remove it with its volumes."""
    with docker_engine.engine() as engine:
        for tag, build in IMAGES.items():
            with tempfile.TemporaryDirectory() as folder:
                began_s = time.monotonic()
                build(engine, tag, Path(folder))
                print(f"{tag}: built in {time.monotonic() - began_s:.0f} s", flush=True)
        project = Project(engine)
        began_s = time.monotonic()
        try:
            project.run("up", "-d", "--no-build")
            for check in (
                check_brokers,
                lambda: check_console(project),
                check_prometheus,
                lambda: check_lost_broker(project),
            ):
                print(f"{time.monotonic() - began_s:4.0f} s: {check()}", flush=True)
        except Exception:
            print(project.run("logs", "--tail", "30"), file=sys.stderr)
            raise
        finally:
            project.run("down", "--volumes", "--timeout", "30")


def main() -> int:
    """Run it; the status is 1 where it cannot be run."""
    try:
        run()
    except (docker_engine.NoEngine, NoImage) as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
