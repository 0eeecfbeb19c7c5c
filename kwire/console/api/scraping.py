"""What a broker of kwire says of itself in its metrics, where it has an endpoint for Prometheus.

The broker's own configuration names the port (``kwire.metrics.listen``). Only the host by which clients reach the
broker is asked there, and redirections are not followed.
"""

from __future__ import annotations

import asyncio
import http.client
import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from kwire.base.addresses import parse_address

PROPERTY: Final = "kwire.metrics.listen"
LOGIN: Final = "kwire.metrics.username"
TLS: Final = "kwire.metrics.ssl.certificate.location"
TIMEOUT_S: Final = 3.0
BYTES_MAX: Final = 32 * 1024 * 1024
_LINE: Final = re.compile(
    r"^kafka_(?:server_brokertopicmetrics_(messagesin|bytesin|bytesout)_total|"
    r"network_requestmetrics_(requests)_total|network_requestmetrics_(totaltimems))(?:\{([^}]*)\})? (\S+)$",
    re.M,
)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Metrics(NamedTuple):
    """Counters of a broker since its start, and milliseconds below which 99 of 100 requests were served lately."""

    messages: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    requests: float = 0.0
    produce_ms: float | None = None
    fetch_ms: float | None = None

    def counters(self) -> tuple[float, float, float, float]:
        """Messages, bytes in, bytes out, requests."""
        return self[:4]


class NoMetrics(Exception):
    """A broker has no metrics for the console. The message says why."""


def endpoint(listen: str | None, host: str, *, login: bool, tls: bool) -> tuple[str, int]:
    """Where a broker's metrics are, by its configuration and the host that clients reach it by. `NoMetrics`."""
    if not listen:
        raise NoMetrics(f"without {PROPERTY} the broker does not tell them")
    if login or tls:
        raise NoMetrics("the broker's metrics need a login or TLS, which the console does not have")
    try:
        address = parse_address(listen)
    except ValueError as error:
        raise NoMetrics(f"{PROPERTY}={listen}: {error}") from None
    if _is_local(address.host or "") and not _is_local(host):
        raise NoMetrics(f"{PROPERTY}={listen} can be reached on the broker's own machine only")
    return host, address.port


def _is_local(host: str) -> bool:
    """Whether a name or address is one of the loopback interface."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def scrape(address: tuple[str, int], node: int) -> Metrics:
    """The metrics of a broker. `NoMetrics`."""
    try:
        async with asyncio.timeout(2 * TIMEOUT_S):
            text = await asyncio.to_thread(_get, *address)
    except (OSError, TimeoutError, http.client.HTTPException, ValueError) as error:
        raise NoMetrics(f"{address[0]}:{address[1]}: {error or 'no answer'}") from None
    return parse(text, node)


def _get(host: str, port: int) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        return response.read(BYTES_MAX).decode("utf-8", "replace")
    finally:
        connection.close()


def parse(text: str, node: int) -> Metrics:
    """A broker's metrics of a page of Prometheus, where those of several brokers have a label ``broker``."""
    sums = dict.fromkeys(("messagesin", "bytesin", "bytesout", "requests"), 0.0)
    times: dict[str, float] = {}
    for messages, requests, time, labels, value in _LINE.findall(text):
        named = dict(_LABEL.findall(labels))
        if named.get("broker", str(node)) != str(node) or "topic" in named:
            continue
        if time:
            if named.get("quantile") == "0.99":
                times[named.get("request", "")] = float(value)
        else:
            sums[messages or requests] += float(value)
    produce, fetch = times.get("Produce"), _fetch(times)
    return Metrics(sums["messagesin"], sums["bytesin"], sums["bytesout"], sums["requests"], produce, fetch)


def _fetch(times: dict[str, float]) -> float | None:
    """That of consumers; brokers that follow wait at the leader for as long as nothing comes."""
    found: Iterable[float | None] = (times.get("FetchConsumer"), times.get("Fetch"))
    return next((each for each in found if each is not None), None)
