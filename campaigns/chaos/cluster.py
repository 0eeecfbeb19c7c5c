"""Three brokers as processes, each on its host, and the metadata store between them.

Here: starting them, keeping them running, the effect of each fault, and waiting until all is well. What lives
elsewhere: when faults come (`faults`), the hosts (`network`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaigns.chaos.network import Loopback, Namespaces
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.kwire_cluster import REPLICATED
from harness.processes.secured_clusters import ClusterSecurity
from harness.processes.zookeeper import SecuredZooKeeper, ZooKeeper
from kwire.base.doors import Doors
from kwire.cluster.store.embedded import FILE_NAME
from kwire.cluster.store.shared import SharedDatabase

STORE_HOST = "zookeeper"
READY_S = 180.0
STOP_S = 60.0
ZOOKEEPER_SECRET = 0xB3415C00
"""ZooKeeper's servers derive a session's password from it and the session's id (`ZooKeeperServer.generatePasswd`)."""

SETTINGS = {
    **REPLICATED,
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "4000",
    "log.roll.ms": "60000",
    "broker.session.timeout.ms": "4000",
}


class Member(KwireBroker):
    """One broker on its host. ``wanted``: it should run; if it ends by itself, it is started again."""

    def __init__(self, home: Path, node_id: int, network: Loopback | Namespaces, settings: Mapping[str, str]) -> None:
        super().__init__(home, {"node.id": str(node_id), **SETTINGS, **settings})
        self.node_id = node_id
        self.name = f"b{node_id}"
        self.host = network.address(self.name)
        self.choose_ports()
        self.wanted = False
        self.paused = False
        self._prefix = network.prefix(self.name)

    def _spawn(self, command: list[str], stdout: Path | None = None) -> Any:
        return super()._spawn([*self._prefix, *command], stdout)

    def run(self) -> None:
        """Start it, unless it runs."""
        self.wanted = True
        if not self.is_running():
            self.begin()

    def kill_hard(self) -> None:
        """SIGKILL; it is not started again by `Cluster.keep_running`."""
        self.wanted = self.paused = False
        self.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, if it was paused."""
        if self.paused and self.is_running():
            os.kill(self.pid, signal.SIGCONT)
        self.paused = False

    def ask_to_stop(self) -> None:
        """SIGTERM, and do not wait."""
        self.wanted = False
        os.kill(self.pid, signal.SIGTERM)

    def has_ended(self) -> bool:
        """Whether the process is over, or was never started."""
        return not self.is_running()

    def ended_by_itself(self) -> int | None:
        """Its exit status, if it has ended without a fault."""
        return self._process.poll() if self.wanted and self._process is not None else None


class Cluster:
    """All brokers and their store. ``home`` keeps everything. ``secured``: clients and brokers use SASL_SSL,
    there are an authorizer and quotas, and ZooKeeper has TLS and logins. ``more``: further properties of brokers."""

    def __init__(
        self,
        home: Path,
        store: str,
        network: Loopback | Namespaces,
        secured: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.store = store
        self.network = network
        self.zookeeper: ZooKeeper | None = None
        self.store_runs = True
        self.ends: list[str] = []
        """Brokers that ended by themselves: id, exit status, last line of the log."""
        if store == "zookeeper":
            place, host, prefix = home / "zookeeper", network.address(STORE_HOST), network.prefix(STORE_HOST)
            if secured:
                self.zookeeper = protected = SecuredZooKeeper(place, host=host, prefix=prefix)
                settings = protected.properties("/chaos")
            else:
                self.zookeeper = ZooKeeper(place, host=host, prefix=prefix)
                settings = {"zookeeper.connect": f"{self.zookeeper.address}/chaos"}
            settings["zookeeper.session.timeout.ms"] = "5000"
        else:
            settings = {"kwire.metadata.dir": str(home / "metadata")}
        self._store_settings = settings
        properties = {**settings, **(more or {})}
        self.brokers = {n: Member(home / f"broker-{n}", n, network, properties) for n in (1, 2, 3)}
        self.security: ClusterSecurity | None = None
        if secured:
            self.security = ClusterSecurity(home / "security", [broker.host for broker in self.brokers.values()])
            for node_id, broker in self.brokers.items():
                self.security.secure(broker, node_id)
                self.security.guard(broker)

    @property
    def client(self) -> dict[str, Any]:
        """The options of a client with librdkafka."""
        return {"bootstrap.servers": self.bootstrap, **(self.security.librdkafka() if self.security else {})}

    @property
    def bootstrap(self) -> str:
        """All brokers, where clients connect."""
        if self.security is not None:
            return self.security.bootstrap(self.brokers)
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> None:
        """Return when all serve. `BrokerFailed`."""
        if self.zookeeper is not None:
            self.zookeeper.start()
        if self.security is not None:
            self.security.add_users(self._store_settings)
            self.security.allow_clients(self._store_settings)
        for broker in self.brokers.values():
            broker.start()
            broker.wanted = True

    def close(self) -> None:
        """End everything, now."""
        for broker in self.brokers.values():
            broker.kill_hard()
        if self.zookeeper is not None:
            self.zookeeper.stop()

    def keep_running(self) -> list[str]:
        """Start brokers that have ended by themselves; return a sentence about each."""
        found = []
        for broker in self.brokers.values():
            status = broker.ended_by_itself()
            if status is not None:
                last = (broker.log_text().splitlines() or ["nothing said"])[-1]
                found.append(f"broker {broker.node_id} ended by itself, status {status}: {last[:300]}")
                broker.begin()
        self.ends += found
        return found

    def mend(self) -> None:
        """End all faults."""
        self.network.heal_all()
        if self.zookeeper is not None:
            self.resume_store()
        for broker in self.brokers.values():
            broker.resume()
            if broker.is_running() and not broker.wanted:  # still stopping
                wait_until(broker.has_ended, STOP_S, "an orderly stop")
            broker.run()

    def await_well(self, topics: list[str]) -> str:
        """Wait until all brokers are there and all ISRs are whole; return what is not ("": nothing)."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({**self.client, "log_level": 0})
        end, missing = time.monotonic() + READY_S, "no broker responds"
        while time.monotonic() < end:
            self.keep_running()
            with contextlib.suppress(KafkaException):
                metadata = admin.list_topics(timeout=10)
                missing = ", ".join(
                    f"{name}-{index}: leader {each.leader}, in sync {sorted(each.isrs)}"
                    for name, topic in metadata.topics.items()
                    for index, each in topic.partitions.items()
                    if len(each.isrs) < 3 or each.leader < 0
                )
                missing = missing or ", ".join(f"no {name}" for name in topics if name not in metadata.topics)
                if not missing and len(metadata.brokers) == len(self.brokers):
                    return ""
                missing = missing or f"only {len(metadata.brokers)} brokers"
            time.sleep(0.3)
        for broker in self.brokers.values():
            with contextlib.suppress(AssertionError, ProcessLookupError):
                os.kill(broker.pid, signal.SIGUSR1)  # each logs its tasks
        return f"the ISRs are not whole {READY_S:.0f} s after the last fault: {missing}"

    def stop(self) -> list[str]:
        """Stop all brokers in order; return the failures."""
        statuses = {broker.node_id: broker.stop() for broker in self.brokers.values()}
        return [
            f"broker {node_id} ended its orderly stop with {status}" for node_id, status in statuses.items() if status
        ]

    def tracebacks(self) -> list[str]:
        """Brokers whose log has a traceback."""
        found = Counter(
            f"broker {broker.node_id}: {line.strip()[:300]}"
            for broker in self.brokers.values()
            for line in broker.log_text().splitlines()
            if "Traceback" in line or '"exception"' in line
        )
        return [f"{line} ({count} times)" for line, count in found.items()]

    # The store

    def pause_store(self) -> None:
        """Stop ZooKeeper with SIGSTOP; its connections stay open."""
        assert self.zookeeper is not None
        self.store_runs = False
        os.kill(self.zookeeper.pid, signal.SIGSTOP)

    def resume_store(self) -> None:
        """Let ZooKeeper continue after `pause_store`."""
        assert self.zookeeper is not None
        self.store_runs = True
        os.kill(self.zookeeper.pid, signal.SIGCONT)

    def kill_store(self) -> None:
        """SIGKILL the store; what it has acknowledged stays."""
        assert self.zookeeper is not None
        self.store_runs = False
        self.zookeeper.stop()

    def start_store(self) -> None:
        """Start ZooKeeper again on its data; return when it serves. `TimeoutError` after 60 s."""
        assert self.zookeeper is not None
        self.zookeeper.start()
        self.store_runs = True

    def end_session(self, node_id: int) -> bool:
        """Have the store end the session of a healthy broker; return whether there was one."""
        if self.zookeeper is None:
            return _end_embedded_session(self.home / "metadata", f"broker {node_id}")
        login = self.zookeeper.login if isinstance(self.zookeeper, SecuredZooKeeper) else None
        return _end_zookeeper_session(self.zookeeper.address, f"broker {node_id}", login)


def _end_zookeeper_session(address: str, owner: str, login: Mapping[str, str] | None) -> bool:
    """Close a session through a second client that has its id and its password."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError

    client = KazooClient(hosts=address, timeout=5, sasl_options=login)
    client.start(5)
    try:
        for name in client.get_children("/chaos/kwire/sessions"):
            with contextlib.suppress(NoNodeError):
                value, stat = client.get(f"/chaos/kwire/sessions/{name}")
                if value == owner.encode():
                    session = stat.ephemeralOwner
                    twin = KazooClient(hosts=address, timeout=5, client_id=(session, session_password(session)))
                    twin.start(5)
                    _stop(twin)
                    return True
        return False
    finally:
        _stop(client)


def _stop(client: Any) -> None:
    client.stop()
    client.close()


def session_password(session: int) -> bytes:
    """A session's password in ZooKeeper: 16 bytes of `java.util.Random`, seeded with the session's id."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    state = (((session ^ ZOOKEEPER_SECRET) & ((1 << 64) - 1)) ^ multiplier) & mask
    password = b""
    for _ in range(4):
        state = (state * multiplier + 0xB) & mask
        password += (state >> 16).to_bytes(4, "little")
    return password


def _end_embedded_session(directory: Path, owner: str) -> bool:
    """End a session in the database, as another broker would, and notify all brokers of the change."""
    path = directory / FILE_NAME
    database = SharedDatabase(str(path), Doors().files)
    database.open()
    try:
        with contextlib.closing(sqlite3.connect(path)) as reader:
            sessions = dict(reader.execute("SELECT id, owner FROM sessions").fetchall())
        ended = [session for session, whose in sessions.items() if whose == owner]
        for session in ended:
            database.end(session)
    finally:
        database.close()
    for session in sessions:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(1)
            knock.connect(str(directory / "sessions" / f"{session}.sock"))
    return bool(ended)
