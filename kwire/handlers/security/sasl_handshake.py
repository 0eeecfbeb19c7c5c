"""SaslHandshake (API key 17), where it has no place.

Behaviour:

- A login is dispatched by `kwire.server.authentication`. Here come only requests of listeners without SASL, after a
  login that does not end, and within a second of the previous login: ILLEGAL_SASL_STATE and no mechanisms, as in Kafka.

Versions: 1 says that tokens come in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """There is nothing to agree on."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


API = Api(ApiKey.SASL_HANDSHAKE, served=(0, 1), handle=handle)
