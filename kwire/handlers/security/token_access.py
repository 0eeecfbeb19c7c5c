"""Who may ask for delegation tokens (KIP-48): only a client that has proved who it is, and not by a token."""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.security.principals import ANONYMOUS

NO_TIME_MS: Final = -1
"""The times in a response to a client that may not ask."""


def require_login(context: RequestContext) -> None:
    """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a PLAINTEXT listener, on an SSL listener without a client certificate,
    and after a login with a token."""
    if not _has_login(context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _has_login(context: RequestContext) -> bool:
    protocol, by_token = context.security
    if protocol == "SSL":
        return context.principal != ANONYMOUS
    return protocol != "PLAINTEXT" and not by_token
