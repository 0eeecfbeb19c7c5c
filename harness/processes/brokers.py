"""Starting, stopping and killing the two brokers that the compat tests compare: kwire and Apache Kafka.

Both are ordinary processes on 127.0.0.1 with equal settings (`COMMON_SETTINGS`), a data directory of their own and a
port that stays the same over restarts. What lives elsewhere: the fixtures that share them (`conftest.py`), jars
(`kafka_jars.py`).

Every process is ended by the pid that was started here. It also dies with the test process, however that ends:
`setpriv --pdeathsig` where util-linux is installed, `atexit` everywhere.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from harness.kafka_jars import class_archive, java_command, kafka_classpath, locked

KINDS = ("kafka", "kwire")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0

# Equal on both sides. Few internal partitions and a short least session timeout keep the tests quick.
COMMON_SETTINGS: dict[str, str] = {
    "node.id": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "true",
    "log.retention.ms": "-1",  # tests write records with fixed, old times
}

# The parent of all brokers is this one thread, not a test's: the death signal comes when the *thread* ends.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")
_KAFKA_CLUSTER_ID = "a3dpcmUtY29tcGF0LXRlcw"  # 16 bytes in Kafka's base64


class BrokerFailed(Exception):
    """A broker did not start or did not stop; the message ends with the last lines of its log."""


def wait_until(condition: Callable[[], object], timeout_s: float, what: str, interval_s: float = 0.02) -> None:
    """Poll `condition` until it is true; `TimeoutError` naming `what` otherwise."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(interval_s)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One broker process. ``kind`` ("kafka" or "kwire"), ``bootstrap`` ("127.0.0.1:PORT"), ``data_dir``, ``pid``.

    ``home`` holds everything of this broker; ``settings`` are Kafka properties on top of `COMMON_SETTINGS`.
    """

    kind = ""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> None:
        self.home = home
        self.settings = {**COMMON_SETTINGS, **(settings or {})}
        self.data_dir = data_dir or home / "data"
        self.log_path = home / "broker.log"
        self.host = "127.0.0.1"
        self.port = 0
        self.source: Path | None = None  # of the broker's own code, where that is not what is tested here
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        atexit.register(self.kill)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, the same after a restart."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def is_running(self) -> bool:
        """Has the process been started and not ended?"""
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        """Everything that the broker has written to its log since the first start."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start the process; return when its group coordinator answers. Raises `BrokerFailed`."""
        assert not self.is_running(), "already running"
        try:
            self._start()
        except (TimeoutError, BrokerFailed) as error:
            self.kill()
            raise BrokerFailed(f"{self.kind} did not start: {error}\n{self._log_tail()}") from None

    def stop(self) -> int:
        """End it gracefully (SIGTERM) and return its exit status. Raises `BrokerFailed` when it does not end."""
        process = self._process
        if process is None or process.poll() is not None:
            self._process = None
            return process.returncode if process is not None else 0
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"{self.kind} did not end within {STOP_TIMEOUT_S:g} s\n{self._log_tail()}") from None
        self._process = None
        return status

    def kill(self) -> None:
        """SIGKILL, as a power cut of the process. Nothing happens when it is not running."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def restart(self) -> None:
        """Gracefully stop and start again on the same port and data."""
        self.stop()
        self.start()

    def _start(self) -> None:
        raise NotImplementedError

    def _spawn(self, command: list[str], stdout: Path | None = None) -> subprocess.Popen[bytes]:
        if sys.platform == "linux" and shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        environment = dict(os.environ)
        if self.source is not None:
            environment["PYTHONPATH"] = str(self.source)
        with open(self.log_path, "ab") as log, open(stdout or self.log_path, "ab") as out:
            # Its own session: an interrupt of pytest must not reach it before the finalizers do.
            def spawn() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    cwd=self.home,
                    env=environment,
                    start_new_session=True,
                )

            return _SPAWNER.submit(spawn).result()

    start_timeout_s = START_TIMEOUT_S

    def _await(self, condition: Callable[[], object], what: str) -> None:
        def ready() -> object:
            if not self.is_running():
                raise BrokerFailed("the process ended")
            return condition()

        wait_until(ready, self.start_timeout_s, what)

    def _log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-30:])


class KwireBroker(Broker):
    """kwire as a process of its own, ready when its one line on standard output says so."""

    kind = "kwire"

    def launch(self) -> None:
        """Start the process and do not wait for it: `is_ready` tells."""
        self._stdout.write_bytes(b"")
        command = [sys.executable, "-m", "kwire", "start"]
        command += ["--listen", f"{self.host}:{self.port}"]
        if "log.dirs" not in self.settings:
            command += ["--data-dir", str(self.data_dir)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        self._process = self._spawn(command, self._stdout)

    def is_ready(self) -> bool:
        """Has it said that it serves?"""
        return self._stdout.read_bytes().endswith(b"\n")

    @property
    def _stdout(self) -> Path:
        return self.home / "stdout.txt"

    def _start(self) -> None:
        self.launch()
        self._await(self.is_ready, "the ready line")
        self.ready_line = self._stdout.read_text()
        self.port = _port_of(self.ready_line, self.pid)


def _port_of(line: str, pid: int) -> int:
    words = line.split()
    if line.count("\n") != 1 or words[:2] != ["kwire", "ready"] or words[-1] != f"pid={pid}" or len(words) != 4:
        raise BrokerFailed(f"standard output is not the ready line: {line!r}, pid {pid}")
    return int(words[2].rpartition(":")[2])


class KafkaBroker(Broker):
    """Apache Kafka in KRaft mode, controller and broker in one JVM."""

    kind = "kafka"

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> None:
        super().__init__(home, settings, data_dir)
        self._controller_port = 0

    def _start(self) -> None:
        prepared = _prepared_kafka()
        if self.port == 0:
            self.port, self._controller_port = free_port(), free_port()
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not self._is_formatted():
            as_usual = "log.dirs" not in self.settings and self.settings["node.id"] == COMMON_SETTINGS["node.id"]
            if prepared is not None and as_usual:
                shutil.copytree(prepared, self.data_dir, dirs_exist_ok=True)
            else:
                self._format(properties)
        self._process = self._spawn(self._command(properties))
        self._await(self._answers, "the group coordinator's answers")

    def _answers(self) -> bool:
        return coordinator_answers(self.host, self.port)

    def _is_formatted(self) -> bool:
        first = self._properties()["log.dirs"].partition(",")[0]
        return (Path(first) / "meta.properties").exists()

    def _command(self, properties: Path) -> list[str]:
        return java_command("-cp", kafka_classpath(), "kafka.Kafka", str(properties), heap="512m")

    def _properties(self) -> dict[str, str]:
        listener = f"{self.host}:{self.port}"
        return {
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"{self.settings['node.id']}@{self.host}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{listener},CONTROLLER://{self.host}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{listener}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            # A killed broker may register again only when its old session is over.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
            **self.settings,
        }

    def _format(self, properties: Path) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", _KAFKA_CLUSTER_ID, "-c", str(properties)]
        command = java_command("-cp", kafka_classpath(), *tool)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"StorageTool format: {done.stdout[-500:]}{done.stderr[-1500:]}")


class _FirstKafka(KafkaBroker):
    """The broker that is started once on a machine: others copy its formatted directory and map its loaded classes."""

    def __init__(self, home: Path, archive: Path, formatted: Path) -> None:
        super().__init__(home)
        self._archive = archive
        self._formatted = formatted

    def _start(self) -> None:
        self.port, self._controller_port = free_port(), free_port()
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        self._format(properties)
        shutil.copytree(self.data_dir, self._formatted, dirs_exist_ok=True)
        self._process = self._spawn(self._command(properties))
        self._await(lambda: coordinator_answers(self.host, self.port), "the group coordinator's answers")

    def _command(self, properties: Path) -> list[str]:
        options = [f"-XX:ArchiveClassesAtExit={self._archive}"]
        return java_command("-cp", kafka_classpath(), "kafka.Kafka", str(properties), heap="512m", options=options)


@cache
def _prepared_kafka() -> Path | None:
    """A freshly formatted data directory to copy, made together with the archive of classes, once on a machine.

    None when that does not work here: then every broker is formatted and started the long way.
    """
    formatted = class_archive().with_suffix(".formatted")
    with locked("kafka-prepared"):
        if class_archive().exists():
            return formatted
        print("preparing Apache Kafka for quick starts (once) ...", file=sys.__stderr__, flush=True)
        with tempfile.TemporaryDirectory(prefix="kafka-prepared-") as home:
            archive = class_archive().with_suffix(".partial")
            first = _FirstKafka(Path(home), archive, formatted)
            try:
                first.start()
                first.stop()
                archive.rename(class_archive())
            except (BrokerFailed, OSError) as error:
                print(f"preparing Apache Kafka: {error}", file=sys.__stderr__, flush=True)
                return None
            finally:
                first.kill()
    return formatted


def make_broker(
    kind: str, home: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
) -> Broker:
    """A broker of a kind ("kwire" or "kafka"), not started yet."""
    return {"kwire": KwireBroker, "kafka": KafkaBroker}[kind](home, settings, data_dir)


def coordinator_answers(host: str, port: int) -> bool:
    """Does the broker name a coordinator (FindCoordinator v1), and is every group's state loaded (OffsetFetch v2)?"""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            for group in (b"a", b"b", b"c", b"d"):  # one for each of the four partitions of __consumer_offsets
                key = struct.pack(">h", len(group)) + group
                (unknown,) = struct.unpack_from(">h", _call(connection, api_key=10, version=1, body=key + b"\0"), 8)
                (unloaded,) = struct.unpack(">h", _call(connection, api_key=9, version=2, body=key + b"\xff" * 4)[-2:])
                if unknown or unloaded:
                    return False
            return True
    except (OSError, EOFError, struct.error):
        return False


def _call(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, 4) + b"kwtest"[:4]
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the broker closed the connection")
        data += part
    return data
