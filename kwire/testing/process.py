"""A broker as a child process: started on a free port, stopped cleanly. For fixtures and test programs.

    with KwireProcess({"num.partitions": "3"}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

The broker keeps its data in a temporary directory, with a control socket in it, and ends when this process ends, even
if that is killed. What lives elsewhere: the fixtures (`factories`), the commands of the socket (`control`).
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kwire.base.addresses import parse_address
from kwire.base.config.definitions import is_sensitive
from kwire.base.config.values import HIDDEN
from kwire.server.ready_line import ReadyLine
from kwire.testing.control import ControlClient

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
LOG_LINES_TOLD = 30

TEST_PROPERTIES: dict[str, str] = {
    "group.min.session.timeout.ms": "500",  # tests of failing consumers need not wait for Kafka's 6 seconds
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Properties of a test broker that differ from the defaults; those that are given take precedence."""


class KwireStartError(Exception):
    """The broker did not start; the text ends with its last log lines."""


class KwireProcess:
    """One broker process. ``properties``: Kafka's, by name. ``listen``: HOST:PORT, port 0 for a free one, unless
    ``listeners`` is among the properties.

    ``data_dir``: None for a temporary one that is removed at the end. ``client_properties``: how clients reach a
    secured listener. `start` raises `KwireStartError`.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        listen: str = "127.0.0.1:0",
        data_dir: str | Path | None = None,
        timeout_s: float = START_TIMEOUT_S,
        client_properties: Mapping[str, str] | None = None,
    ) -> None:
        self.properties = {**TEST_PROPERTIES, "kwire.test.control": "true", **(properties or {})}
        self.bootstrap_servers = ""
        self.client_properties: Mapping[str, str] = client_properties or {}
        """Kafka's client properties with which the broker is reached."""
        self._listen = listen
        self._timeout_s = timeout_s
        self._given_data_dir = None if data_dir is None else Path(data_dir)
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: ControlClient | None = None
        self._tether: ControlClient | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def host(self) -> str:
        """The host of `bootstrap_servers`."""
        return parse_address(self.bootstrap_servers).host

    @property
    def port(self) -> int:
        """The port of `bootstrap_servers`."""
        return parse_address(self.bootstrap_servers).port

    @property
    def pid(self) -> int:
        """The process id of the broker. RuntimeError when it is not running."""
        if self._process is None:
            raise RuntimeError("this broker is not running")
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        """The broker's data directory."""
        return self._given_data_dir or self._own_directory() / "data"

    @property
    def control(self) -> ControlClient:
        """The broker's control socket. `ControlError` when ``kwire.test.control`` was turned off."""
        if self._control is None:
            self._control = ControlClient(self.data_dir / "control.sock")
        return self._control

    def log_text(self) -> str:
        """The broker's log so far."""
        log = self._own_directory() / "broker.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _own_directory(self) -> Path:
        """Not pytest's temporary directory: the path of a Unix socket must be short."""
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="kwire-"))
        return self._home

    # -- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Return when clients are served. `KwireStartError` with the end of the broker's log otherwise."""
        if self._process is not None:
            raise RuntimeError("this broker is running already")
        # -P: what lies in the current directory of the tests must not stand in the way of what the broker imports.
        command = [sys.executable, "-P", "-m", "kwire", "start"]
        if "listeners" not in self.properties:
            command += ["--listen", self._listen]
        command += ["--data-dir", str(self.data_dir)]
        secrets = {name: value for name, value in self.properties.items() if is_sensitive(name)}
        for name, value in self.properties.items():
            if name not in secrets:
                command += ["--set", f"{name}={value}"]
        if secrets:  # others on this machine can read command lines
            command += ["--config", str(self._secret_file(secrets))]
        with (self._own_directory() / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=_environment())
        try:
            self._await_ready()
            if self.properties["kwire.test.control"] == "true":
                self._tether = ControlClient(self.data_dir / "control.sock")
                self._tether.do("tether")
        except BaseException:
            self.kill()
            self._clean_up()
            raise

    def _secret_file(self, secrets: Mapping[str, str]) -> Path:
        path = self._own_directory() / "secrets.properties"
        path.touch(mode=0o600)
        escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in secrets.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()), encoding="utf-8")
        return path

    def _await_ready(self) -> None:
        """Wait for the ready line."""
        assert self._process is not None and self._process.stdout is not None
        stream = self._process.stdout
        deadline = time.monotonic() + self._timeout_s
        text = b""
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise KwireStartError(self._failure(f"is not ready after {self._timeout_s:g} s"))
            read = os.read(stream.fileno(), 4096)
            if not read:
                raise KwireStartError(self._failure(f"ended with status {self._process.wait()}"))
            text += read
        try:
            self.bootstrap_servers = ReadyLine.parse(text).bootstrap
        except ValueError as error:
            raise KwireStartError(self._failure(str(error))) from None

    def _failure(self, what: str) -> str:
        lines = self.log_text().splitlines()[-LOG_LINES_TOLD:]
        given = " ".join(f"{name}={HIDDEN if is_sensitive(name) else value}" for name, value in self.properties.items())
        output = "\n  ".join(lines or ["(nothing)"])
        return f"kwire {what} (--listen {self._listen}, {given}). Its last output:\n  {output}"

    def stop(self) -> int:
        """Stop the broker cleanly and remove its temporary data. Returns the exit status, 0 if all went well."""
        process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        self._reap()
        self._clean_up()
        return process.returncode

    def kill(self) -> None:
        """SIGKILL; the data stays, and `start` begins with it."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def discard(self) -> None:
        """`kill`, and remove the temporary data, which needs no clean stop."""
        self.kill()
        self._clean_up()

    def _reap(self) -> None:
        process, self._process = self._process, None
        assert process is not None and process.stdout is not None
        process.wait()
        process.stdout.close()
        for client in (self._control, self._tether):
            if client is not None:
                client.close()
        self._control = self._tether = None

    def _clean_up(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None


def _environment() -> dict[str, str]:
    """This process's environment without what would configure the broker from outside; with kwire on the path, where
    it is not installed."""
    left_out = ("KAFKA_", "CLUSTER_ID")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    sources = str(Path(__file__).parents[2])
    if not sources.endswith("-packages"):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (sources, environment.get("PYTHONPATH"))))
    return environment
