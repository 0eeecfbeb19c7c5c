"""RenewDelegationToken (API key 39): have a delegation token expire later (KIP-48).

Behaviour:

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client has logged in, and not with a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The token is named by its HMAC: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED. Its owner and its renewers may
  renew it (DELEGATION_TOKEN_OWNER_MISMATCH); who requested it for another may not.
- It expires after the period in the request, if that is positive and less than `delegation.token.expiry.time.ms`, or
  else after the latter; never after its maximal lifetime.

Versions: 1; 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.codec.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.security.token_access import NO_TIME_MS, require_login


async def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Renew the token."""
    try:
        require_login(context)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME_MS)
    tokens = context.services.controller.delegation_tokens
    expiry_ms = await tokens.renew(bytes(request.hmac), context.principal, request.renew_period_ms)
    return RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expiry_ms)


API = Api(ApiKey.RENEW_DELEGATION_TOKEN, served=(1, 2), handle=handle)
