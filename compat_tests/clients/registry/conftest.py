"""Registries as processes, at kwire and at Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from compat_tests.names import Names
from harness.processes.brokers import Broker

JSON = "application/vnd.schemaregistry.v1+json"


class Registry:
    """A process of ``kwire registry``."""

    def __init__(self, bootstrap: str, topic: str, *options: str) -> None:
        command = [sys.executable, "-m", "kwire", "registry", "--bootstrap-server", bootstrap]
        command += ["--listen", "127.0.0.1:0", "--topic", topic, "--group", topic, "--timeout", "60", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("kwire registry ready url="):
            self.close()
            raise AssertionError(line)
        self.url = line.removeprefix("kwire registry ready url=").strip()

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A request and what came back."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": JSON, **(headers or {})}, method=method)
        try:
            with urlopen(request, timeout=120) as response:
                return Answer(response.status, json.loads(response.read() or b"null"))
        except HTTPError as error:
            with error:
                return Answer(error.code, json.loads(error.read() or b"null"))

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """End it and free its pipes; SIGTERM if it still runs."""
        self.process.terminate()
        self.process.communicate(timeout=60)


class Answer(NamedTuple):
    """A status, and the JSON of the body."""

    status: int
    body: Any

    @property
    def code(self) -> tuple[int, int]:
        """The status and Confluent's code."""
        return self.status, self.body["error_code"]


Start = Callable[..., Registry]


@pytest.fixture
def topic(new_name: Names) -> str:
    return new_name("schemas")


@pytest.fixture
def start(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Start]:
    """``start(*options)``: another instance on the same topic."""
    started: list[Registry] = []

    def one(*options: str) -> Registry:
        started.append(Registry(broker.bootstrap, topic, *options))
        return started[-1]

    yield one
    for each in started:
        each.close()


@pytest.fixture
def registry(start: Start) -> Registry:
    return start()
