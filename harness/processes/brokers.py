"""Start, stop and kill a broker of either kind, kwire or Apache Kafka, as a process.

Both are ordinary processes on 127.0.0.1 with equal settings (`COMMON_SETTINGS`), a data directory of their own and a
port that stays the same over restarts. What lives elsewhere: production settings (`harness.processes.production`),
clusters (`harness.processes.clusters`, `harness.processes.kwire_cluster`), Kafka's jars (`harness.kafka_jars`).

Every process is ended by the pid that was started here. It also dies with the test process, however that ends:
`setpriv --pdeathsig` where util-linux is installed, `atexit` everywhere.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness.kafka_jars import class_archive, java_command, kafka_classpath, locked
from harness.processes.ports import free_port
from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.base.addresses import Address
from kwire.codec.errors import CodecError
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest
from kwire.server.ready_line import ReadyLine

T = TypeVar("T")

KINDS = ("kafka", "kwire")
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
START_ATTEMPTS = 3
PORT_TAKEN = "Address already in use"  # in the log of either kind

# Equal on both sides. Few internal partitions and a short least session timeout keep the tests quick.
COMMON_SETTINGS: dict[str, str] = {
    "node.id": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
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
    """Poll `condition` until it is true; `TimeoutError` naming `what` otherwise, after `PATIENCE_S` at the earliest."""
    limit_s = max(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit_s:g} s")
        time.sleep(interval_s)


def wait_for(
    get: Callable[[], T], is_it: Callable[[T], object], timeout_s: float, what: str, interval_s: float = 0.02
) -> T:
    """Call `get` until ``is_it`` is true of what it returns, and return that; `TimeoutError` with the last one, in the
    time of `wait_until`."""
    found: list[T] = []

    def is_found() -> object:
        found[:] = [get()]
        return is_it(found[0])

    try:
        wait_until(is_found, timeout_s, what, interval_s)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; at last: {found[0]!r}") from None
    return found[0]


class Broker:
    """One broker process. ``kind`` ("kafka" or "kwire"), ``bootstrap`` ("127.0.0.1:PORT"), ``data_dir``, ``pid``.

    ``home`` holds everything of this broker; ``settings`` are Kafka properties on top of `COMMON_SETTINGS`.
    """

    kind = ""
    start_timeout_s = START_TIMEOUT_S
    stop_timeout_s = STOP_TIMEOUT_S

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> None:
        self.home = home
        self.settings = {**COMMON_SETTINGS, **(settings or {})}
        self.data_dir = data_dir or home / "data"
        self.log_path = home / "broker.log"
        self.host = "127.0.0.1"
        self.port = 0
        self.source: Path | None = None  # the directory of the broker's code, if it is not this repository
        self.environment: dict[str, str] = {}  # of the process, on top of this one's
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
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        """The broker's log since the first start."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def prepare(self) -> None:
        """Make what the first start needs; `start` does this itself, `begin` does not."""

    def begin(self) -> None:
        """Start the process without waiting for it. The port must have been set, or be known from an earlier start."""
        raise NotImplementedError

    def choose_ports(self) -> None:
        """Choose free ports, for callers who must know them before the start; otherwise the first start does it."""
        self.port = free_port()

    def start(self) -> None:
        """Start the process; return when its group coordinator is available. Raises `BrokerFailed`.

        If another process has taken a port that was chosen here, other ports are chosen.
        """
        assert not self.is_running(), "already running"
        chooses, attempt = self.port == 0, 0
        while True:
            attempt += 1
            if chooses:
                self.choose_ports()
            earlier = len(self.log_text())
            try:
                self._start()
            except (TimeoutError, BrokerFailed) as error:
                self.kill()
                if chooses and attempt < START_ATTEMPTS and PORT_TAKEN in self.log_text()[earlier:]:
                    continue
                raise BrokerFailed(f"{self.kind} did not start: {error}\n{self._log_tail()}") from None
            return

    def stop(self) -> int:
        """Stop it in order (SIGTERM); return its exit status. Raises `BrokerFailed` if it does not end in time."""
        process = self._process
        if process is None or process.poll() is not None:
            self._process = None
            return process.returncode if process is not None else 0
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            late = f"{self.kind} did not end within {self.stop_timeout_s:g} s"
            raise BrokerFailed(f"{late}\n{self._log_tail()}") from None
        self._process = None
        return status

    def kill(self) -> None:
        """SIGKILL. Does nothing if the process is not running."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop in order, then start again on the same port and data."""
        self.stop()
        self.start()

    def _start(self) -> None:
        raise NotImplementedError

    def _spawn(self, command: list[str], stdout: Path | None = None) -> subprocess.Popen[bytes]:
        if sys.platform == "linux" and shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        environment = {**os.environ, **self.environment}
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

    def _await(self, condition: Callable[[], object], what: str) -> None:
        def ready() -> object:
            if not self.is_running():
                raise BrokerFailed("the process ended")
            return condition()

        wait_until(ready, self.start_timeout_s, what)

    def _log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-30:])


class KwireBroker(Broker):
    """kwire as a process, ready once it has written the ready line to standard output."""

    kind = "kwire"
    options: Sequence[str] = ()
    """More options of ``kwire start``."""

    def begin(self) -> None:
        """Start the process without waiting for it: `is_ready` says when it serves clients."""
        self._stdout.write_bytes(b"")
        command = [sys.executable, "-m", "kwire", "start", *self.options]
        if "listeners" not in self.settings:
            command += ["--listen", f"{self.host}:{self.port}"]
        if "log.dirs" not in self.settings:
            command += ["--data-dir", str(self.data_dir)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        self._process = self._spawn(command, self._stdout)

    def is_ready(self) -> bool:
        """Whether it has written the ready line."""
        return self._stdout.read_bytes().endswith(b"\n")

    @property
    def _stdout(self) -> Path:
        return self.home / "stdout.txt"

    def _start(self) -> None:
        self.begin()
        self._await(self.is_ready, "the ready line")
        self._check(self._stdout.read_text())

    def _check(self, text: str) -> None:
        """The ready line must be all that the broker has written, and name its port."""
        try:
            line = ReadyLine.parse(text)
        except ValueError as error:
            raise BrokerFailed(str(error)) from None
        if text != f"{line}\n" or line.pid != self.pid:
            raise BrokerFailed(f"standard output is not the ready line of process {self.pid}: {text!r}")


class KafkaBroker(Broker):
    """Apache Kafka in KRaft mode, controller and broker in one JVM."""

    kind = "kafka"

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> None:
        super().__init__(home, settings, data_dir)
        self.controller_port = 0

    def choose_ports(self) -> None:
        """Choose the port for clients and the controller's."""
        self.port, self.controller_port = free_port(), free_port()

    def prepare(self) -> None:
        """Write the properties file, and format the data directory unless it is formatted."""
        self._write_properties()
        if not self._is_formatted():
            self._format(self._properties_file)

    def begin(self) -> None:
        """Start the process on its formatted directory without waiting for it."""
        self._process = self._spawn(self._command(self._properties_file))

    def _start(self) -> None:
        prepared = _prepared_kafka()
        as_usual = "log.dirs" not in self.settings and self.settings["node.id"] == COMMON_SETTINGS["node.id"]
        if prepared is not None and as_usual and not self._is_formatted():
            shutil.copytree(prepared, self.data_dir, dirs_exist_ok=True)
        self.prepare()
        self.begin()
        self._await(self._answers, "the group coordinator")

    @property
    def _properties_file(self) -> Path:
        return self.home / "server.properties"

    def _write_properties(self) -> None:
        lines = (f"{name}={value}\n" for name, value in self._properties().items())
        self._properties_file.write_text("".join(lines))

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
            "controller.quorum.voters": f"{self.settings['node.id']}@{self.host}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{listener},CONTROLLER://{self.host}:{self.controller_port}",
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
    """The broker that is started once per machine: others copy its formatted directory and map its loaded classes."""

    def __init__(self, home: Path, archive: Path, formatted: Path) -> None:
        super().__init__(home)
        self._archive = archive
        self._formatted = formatted

    def _start(self) -> None:
        self.prepare()
        shutil.copytree(self.data_dir, self._formatted, dirs_exist_ok=True)
        self.begin()
        self._await(self._answers, "the group coordinator")

    def _command(self, properties: Path) -> list[str]:
        options = [f"-XX:ArchiveClassesAtExit={self._archive}"]
        return java_command("-cp", kafka_classpath(), "kafka.Kafka", str(properties), heap="512m", options=options)


@cache
def _prepared_kafka() -> Path | None:
    """A newly formatted data directory to copy; it is made once per machine, together with the class archive.

    None if that fails: every broker is then formatted and started without them.
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
    """Whether the broker names a coordinator, and has loaded the state of every group."""
    try:
        with WireClient(str(Address(host, port)), timeout_s=5) as client:
            for group in ("a", "b", "c", "d"):  # one for each of the four partitions of __consumer_offsets
                found = client.call(FindCoordinatorRequest(key=group), 1)
                loaded = client.call(OffsetFetchRequest(group_id=group, topics=None), 2)
                if found.error_code or loaded.error_code:
                    return False
            return True
    except (OSError, CodecError):
        return False
