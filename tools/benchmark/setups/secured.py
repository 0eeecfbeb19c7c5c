"""What TLS and logins cost: the same work with and without TLS on the same broker, in turns, and the difference.

The brokers have the listeners of `harness.processes.secured` and a key of RSA-2048. Clients are the load generator with
OpenSSL, which sends records of 16 KiB as Kafka's clients do; for logins a client in Python, one login after the other.
Only the broker's processor time is compared: it depends little on who the client is.
"""

from __future__ import annotations

import ssl
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.processes.production import secured_production_broker
from harness.processes.secured import USERS, SecuredBroker
from kwire.security.client import LOGIN_MODULES
from kwire.testing.blocking_client import BlockingClient
from tools.benchmark import frames, generator
from tools.benchmark.targets import Target, Topic
from tools.benchmark.workloads import KIB, MEGABYTE, SECURED, Facts, Produce, Workload

PASSES = 5
UNDER_WAY = 5
TLS_1_2, TLS_1_3 = 12, 13
VERSIONS = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
ADDED, COST, BARE = "cpu_added_us", "cpu_tls_us", "cpu_bare_us"


class SecuredTarget(Target):
    """A broker with secured listeners under measurement."""

    def __init__(self, kind: str, home: Path) -> None:
        self.secured: SecuredBroker = secured_production_broker(kind, home)
        super().__init__(self.secured)

    def run(
        self, tls: int, templates: list[frames.Template] | None = None, topic: Topic | None = None, **options: int
    ) -> dict[str, Any]:
        """`generator.run` against the listener SSL with a version of TLS, or against PLAINTEXT (0)."""
        port = self.secured.ports["SSL" if tls else "PLAINTEXT"]
        return generator.run(self, templates, topic, port=port, tls=tls, **options)


def compared(units: float, work: Callable[[int], dict[str, Any]], tls: int = TLS_1_3) -> Facts:
    """Run ``work(tls)`` and ``work(0)`` in turns, after a pass of each that does not count; ``units``: MB, requests or
    connections in one pass. ``cpu_plain_us``, ``cpu_tls_us`` and ``cpu_added_us`` are the medians for a unit, and
    ``rate`` and ``plain_rate`` units a second."""
    costs: dict[int, list[float]] = {0: [], tls: []}
    seconds: dict[int, list[float]] = {0: [], tls: []}
    for number in range(PASSES + 1):
        for each in (0, tls) if number % 2 else (tls, 0):
            result = work(each)
            if number:
                costs[each].append(result["cpu_s"] / units * 1e6)
                seconds[each].append(max(result["send_s"], result["read_s"]))
    added = [secured - plain for secured, plain in zip(costs[tls], costs[0], strict=True)]
    return {
        "rate": units / statistics.median(seconds[tls]),
        "plain_rate": units / statistics.median(seconds[0]),
        "cpu_plain_us": statistics.median(costs[0]),
        COST: statistics.median(costs[tls]),
        ADDED: statistics.median(added),
    }


def _of(target: Target) -> SecuredTarget:
    assert isinstance(target, SecuredTarget)
    return target


@dataclass(frozen=True)
class TlsProduce:
    """Produce requests of one batch, five under way; the unit is a MB."""

    batch: int
    data: int = 150 * MEGABYTE

    def __call__(self, target: Target, scale: float) -> Facts:
        """Produce with and without TLS. See `Measure`."""
        produce = Produce(batch=self.batch, data=self.data)
        frame = b""

        def work(tls: int) -> dict[str, Any]:
            nonlocal frame
            topic = target.create_topic()
            templates = produce.templates(topic)
            frame = templates[0].frame
            requests = produce.requests(templates, scale)
            target.warm_pages(int(self.data * scale * 1.1))
            result = _of(target).run(tls, templates, producers=1, inflight=UNDER_WAY, requests=requests)
            assert topic.records() == result["sent_records"]
            topic.delete()
            return result

        facts = compared(self.data * scale / MEGABYTE, work)
        return {**facts, BARE: bare_us_per_mb(_chain(target), [frame] * UNDER_WAY, bytes(60 * UNDER_WAY))}


@dataclass(frozen=True)
class TlsConsume:
    """Read a topic from its beginning; the unit is a MB."""

    data: int = 200 * MEGABYTE

    def __call__(self, target: Target, scale: float) -> Facts:
        """Fetch with and without TLS. See `Measure`."""
        topic = target.create_topic()
        Produce(data=self.data).fill(topic, scale)
        end = topic.records()
        units = 0.0

        def work(tls: int) -> dict[str, Any]:
            nonlocal units
            result = _of(target).run(tls, None, topic, readers=1, until=end)
            units = result["read_bytes"] / MEGABYTE
            return result

        facts = compared(self.data * scale / MEGABYTE, work)
        assert units > 0.95 * self.data * scale / MEGABYTE
        topic.delete()
        return {**facts, BARE: bare_us_per_mb(_chain(target), [bytes(100)], bytes(MEGABYTE))}


@dataclass(frozen=True)
class TlsRequests:
    """One record a request, acks=all, one request under way on each connection; the unit is a request."""

    connections: int
    requests: int = 20_000

    def __call__(self, target: Target, scale: float) -> Facts:
        """Send small requests with and without TLS. See `Measure`."""
        topic = target.create_topic()
        templates = [frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)]
        requests = max(int(self.requests * scale), 2 * self.connections)

        def work(tls: int) -> dict[str, Any]:
            return _of(target).run(tls, templates, requests=requests, producers=self.connections, inflight=1)

        facts = compared(requests, work)
        topic.delete()
        return facts


@dataclass(frozen=True)
class Handshakes:
    """Connections with a full handshake that are closed again, eight at a time, beside connections without TLS; the
    unit is a connection."""

    tls: int
    connections: int = 1000

    def __call__(self, target: Target, scale: float) -> Facts:
        """Open and close connections with and without TLS. See `Measure`."""
        opens = max(int(self.connections * scale), 50)

        def work(tls: int) -> dict[str, Any]:
            return _of(target).run(tls, opens=opens, inflight=8)

        work(self.tls)
        return {**compared(opens, work, self.tls), BARE: bare_handshake_us(self.tls, _chain(target))}


def _chain(target: Target) -> str:
    """A PEM file with the broker's key and certificates."""
    return _of(target).secured.settings["ssl.keystore.location"]


class Pair:
    """Both sides of a TLS connection by Python's `ssl`, without a socket. ``spent_ns``: the processor time that the
    server's side has taken for its handshake."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.to_server, self.to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.to_client, self.to_server)
        began_ns = time.thread_time_ns()
        self.server: Any = server.wrap_bio(self.to_server, self.to_client, server_side=True)
        self.spent_ns = time.thread_time_ns() - began_ns
        done = [False, False]
        while not all(done):
            done[0] = done[0] or _steps(self.client)
            began_ns = time.thread_time_ns()
            done[1] = done[1] or _steps(self.server)
            self.spent_ns += time.thread_time_ns() - began_ns


def _contexts(tls: int, chain: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(chain)
    server.num_tickets = 1
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = client.minimum_version = VERSIONS[tls]
    return server, client


def bare_handshake_us(tls: int, chain: str, handshakes: int = 300) -> float:
    """The processor time that Python's `ssl` takes for the server's side of a handshake, without a socket: the
    median."""
    contexts = _contexts(tls, chain)
    return statistics.median(Pair(*contexts).spent_ns / 1000 for _ in range(handshakes))


def bare_us_per_mb(chain: str, requests: list[bytes], responses: bytes, rounds: int = 200) -> float:
    """The processor time that Python's `ssl` takes for a MB to decrypt the requests that come at once, and to encrypt
    their responses, without a socket: the median."""
    pair = Pair(*_contexts(TLS_1_3, chain))
    received = memoryview(bytearray(sum(map(len, requests))))
    costs = []
    for _ in range(rounds):
        for each in requests:
            pair.client.write(each)
        data = pair.to_server.read()
        began_ns = time.thread_time_ns()
        pair.to_server.write(data)
        filled = 0
        while filled < len(received):
            filled += pair.server.read(len(received) - filled, received[filled:])
        pair.server.write(responses)
        costs.append((time.thread_time_ns() - began_ns) / 1000)
        pair.to_client.read()
    return statistics.median(costs) / (len(received) + len(responses)) * MEGABYTE


def _steps(side: ssl.SSLObject) -> bool:
    """Go on with a handshake as far as possible; whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


@dataclass(frozen=True)
class Logins:
    """Connections that log in and are closed, one after the other, over SASL_SSL and SASL_PLAINTEXT; the unit is a
    login. The client's work is the larger part of the time."""

    mechanism: str
    logins: int = 150

    def __call__(self, target: Target, scale: float) -> Facts:
        """Log in with and without TLS. See `Measure`."""
        broker, logins = _of(target).secured, max(int(self.logins * scale), 20)

        def work(tls: int) -> dict[str, Any]:
            listener = "SASL_SSL" if tls else "SASL_PLAINTEXT"
            properties = self._properties(broker, listener)
            before, started = target.cpu_s(), time.perf_counter()
            for _ in range(logins):
                BlockingClient(broker.address(listener), properties=properties).close()
            seconds = time.perf_counter() - started
            time.sleep(0.02)  # the end of the last connection
            return {"cpu_s": target.cpu_s() - before, "send_s": seconds, "read_s": 0.0}

        return compared(logins, work)

    def _properties(self, broker: SecuredBroker, listener: str) -> dict[str, str]:
        name, password = next(iter(USERS.items()))
        return {
            "security.protocol": listener,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(broker.settings["ssl.keystore.location"]),
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f'{LOGIN_MODULES[self.mechanism]} required username="{name}" password="{password}";',
        }


def warm_up(target: Target, scale: float) -> None:
    """Run the paths of TLS for a while: a JVM compiles what it runs often."""
    for each in (TlsProduce(16 * KIB), TlsConsume(), TlsRequests(50)):
        each(target, scale / 2)


def secured() -> list[Workload]:
    """The workloads on the brokers with secured listeners."""

    def line(key: str, title: str, measure: Any, *limits: tuple[str, float]) -> Workload:
        return Workload(f"tls-{key}", title, SECURED, measure, "rate", COST, limits=limits)

    a_mb, a_request, a_handshake = (ADDED, 700.0), (ADDED, 9.0), (COST, 800.0)
    return [
        line("produce-16k", "MB produced, 16 KiB batches", TlsProduce(16 * KIB), a_mb),
        line("produce-128k", "MB produced, 128 KiB batches", TlsProduce(128 * KIB), a_mb),
        line("consume", "MB consumed", TlsConsume(), a_mb),
        line("one-1", "one record a request, 1 connection", TlsRequests(1, 10_000)),
        line("one-50", "one record a request, 50 connections", TlsRequests(50), a_request),
        line("handshake-13", "connection with a handshake, TLS 1.3", Handshakes(TLS_1_3), a_handshake),
        line("handshake-12", "connection with a handshake, TLS 1.2", Handshakes(TLS_1_2), a_handshake),
        line("login-plain", "login over SASL_SSL, PLAIN", Logins("PLAIN")),
        line("login-scram-256", "login over SASL_SSL, SCRAM-SHA-256", Logins("SCRAM-SHA-256")),
        line("login-scram-512", "login over SASL_SSL, SCRAM-SHA-512", Logins("SCRAM-SHA-512")),
    ]
