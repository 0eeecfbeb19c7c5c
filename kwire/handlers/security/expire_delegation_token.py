"""ExpireDelegationToken (API key 40): have a delegation token expire at a certain time, or at once (KIP-48).

Behaviour:

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client has logged in, and not with a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The token is named by its HMAC (DELEGATION_TOKEN_NOT_FOUND). Its owner and its renewers may change when it expires
  (DELEGATION_TOKEN_OWNER_MISMATCH).
- A negative period removes the token; any other is counted from now and ends with the maximal lifetime at the latest
  (DELEGATION_TOKEN_EXPIRED if the token's time is over).

Versions: 1; 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.codec.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.security.token_access import NO_TIME_MS, require_login


async def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    """Change when the token expires, or remove it."""
    try:
        require_login(context)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME_MS)
    tokens = context.services.controller.delegation_tokens
    expiry_ms = await tokens.expire(bytes(request.hmac), context.principal, request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expiry_ms)


API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, served=(1, 2), handle=handle)
