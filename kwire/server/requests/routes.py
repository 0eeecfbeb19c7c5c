"""What the dispatcher looks up once for each API and version.

What lives elsewhere: which APIs there are (`kwire.handlers.registry`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kwire.base.metrics import TIMES_MAX
from kwire.codec.error_counts import error_counter
from kwire.codec.protocol import (
    ApiKey,
    api_facts,
    encode_parts,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)

if TYPE_CHECKING:
    from kwire.base.metrics import RequestMetrics
    from kwire.handlers.api import Api
    from kwire.net.settings import Part

pack_header = Struct(">ii").pack
"""A response's size and correlation id."""

_pack_flexible_header = Struct(">iix").pack


def api_name(key: int) -> str:
    """Kafka's name of an API: ``OffsetCommit``."""
    return "".join(word.capitalize() for word in api_facts(key).stem.split("_"))


class Route:
    """An API in one version: everything that is looked up once."""

    __slots__ = (
        "_times",
        "api",
        "count_errors",
        "fast_path",
        "flexible_header",
        "key",
        "metrics",
        "name",
        "of_followers",
        "pack",
        "request_class",
        "response_class",
        "response_header_size",
        "takes_long",
        "tells_software",
        "together",
        "version",
    )

    def __init__(self, api: Api, version: int, metrics: RequestMetrics) -> None:
        self.api = api
        self.key = int(api.key)
        self.version = version
        self.name = api_name(api.key)
        self.request_class = request_class(api.key)
        self.response_class = response_class(api.key)
        self.flexible_header = request_header_version(api.key, version) == 2
        flexible = response_header_version(api.key, version) == 1
        self.pack = _pack_flexible_header if flexible else pack_header
        self.response_header_size = 5 if flexible else 4
        self.fast_path = None if api.fast_path is None else api.fast_path(version)
        self.together = api.together
        self.metrics = metrics
        self._times = metrics.times_of(version)
        self.takes_long = False  # whether the last request took long
        self.of_followers: Route | None = None  # of Fetch: the route of followers' requests, with metrics of their own
        self.count_errors = error_counter(self.response_class, version)
        self.tells_software = api.key == ApiKey.API_VERSIONS  # here, because a member of an enumeration is found slowly

    def count(self, request_size: int, response_size: int, seconds: float) -> None:
        """Count a request that was answered at once."""
        metrics, times = self.metrics, self._times
        metrics.request_bytes += request_size
        metrics.response_bytes += response_size
        times.append(int(seconds * 1e6))
        if len(times) >= TIMES_MAX:
            metrics.count()


def frame_of(
    route: Route, correlation_id: int, response: Any, encoded: list[Any] | None = None
) -> tuple[list[Part], int]:
    """The frame of a response in parts, and its size. ``encoded``: its body, if that is known."""
    parts: list[Any] = encoded or encode_parts(response, route.version)
    size = route.response_header_size
    for part in parts:
        size += part.size if hasattr(part, "size") else len(part)
    head = route.pack(size, correlation_id)
    if parts and parts[0].__class__ is bytes and len(parts[0]) < 65536:
        parts[0] = head + parts[0]
    else:
        parts.insert(0, head)
    return parts, size + 4
