"""SaslAuthenticate (API key 36), where it has no place.

Behaviour:

- A login is dispatched by `kwire.server.authentication`. Here come only requests of listeners without SASL and after
  the login: ILLEGAL_SASL_STATE, as in Kafka.

Versions: 1 the lifetime of the login (KIP-368); 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    """There is no login under way."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


API = Api(ApiKey.SASL_AUTHENTICATE, served=(0, 2), handle=handle)
