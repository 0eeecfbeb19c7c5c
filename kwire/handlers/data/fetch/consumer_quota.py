"""The quotas of a consumer's Fetch: `consumer_byte_rate` and `request_percentage` (KIP-13, KIP-124, KIP-219).

They are charged before the response is final, because a throttled client gets an empty one. If the size of the response
is needed, it is encoded here; the dispatcher then sends these bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.codec.protocol import encode_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.codec.message import Message
    from kwire.handlers.context import RequestContext

_SIZE_FIELD: Final = 4
"""Kafka counts the four bytes that announce a response's size, but not its header."""


def client_bytes_max(context: RequestContext) -> int:
    """The most bytes that the client can get in one response without certainly being throttled."""
    quotas = context.services.quotas.managers
    return quotas.fetch_bytes_max(quotas.client(context.principal.name, context.client_id, quotas.now_ms()))


def charge(context: RequestContext, preview: Callable[[], Message]) -> int:
    """Charge the client for a response. Returns how long the client is throttled; if it is not 0, it must get an empty
    response."""
    quotas = context.services.quotas.managers
    now_ms = quotas.now_ms()
    client = quotas.client(context.principal.name, context.client_id, now_ms)
    parts, size = [], 0
    if client.fetch is not None:
        parts = encode_parts(preview(), context.api_version)
        size = _SIZE_FIELD + sum(part.size if hasattr(part, "size") else len(part) for part in parts)
    throttle_ms = quotas.charge_fetch(client, size, context.busy_s(), now_ms)
    context.charged = [] if throttle_ms else parts
    context.throttle_time_ms = throttle_ms
    return throttle_ms
