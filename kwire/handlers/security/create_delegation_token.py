"""CreateDelegationToken (API key 38): a token with which one can log in as its owner (KIP-48).

Behaviour:

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client has logged in, and not with a token.
- The owner is the client, or the principal in the request; the latter needs CREATE_TOKENS on it
  (DELEGATION_TOKEN_AUTHORIZATION_FAILED).
- INVALID_PRINCIPAL_TYPE if a renewer is not a user (or, other than in Kafka, the owner has no type), then
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- A positive maximal lifetime counts if it is shorter than `delegation.token.max.lifetime.ms`. The token expires after
  `delegation.token.expiry.time.ms` unless it is renewed.
- The response has the HMAC, which is the password of a login with the token.

Versions: 1; 2 flexible; 3 owner and requester (KIP-373).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import is_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.security.token_access import require_login
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import ANONYMOUS, Principal


async def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    """Create the token; a refusal also names owner and requester."""
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = _response(owner, requester, context.api_version)
    try:
        _check(request, context, owner)
        await _create(response, request, context, owner)
    except KafkaError as error:
        response.error_code = error.code
    return response


def _check(request: CreateDelegationTokenRequest, context: RequestContext, owner: Principal) -> None:
    from kwire.security.delegation_tokens import check_renewers

    require_login(context)
    other = Operation(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))
    if owner != context.principal and not is_allowed(context, other):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if request.owner_principal_name and request.owner_principal_type is None:
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    check_renewers(_renewers(request))


async def _create(
    response: CreateDelegationTokenResponse,
    request: CreateDelegationTokenRequest,
    context: RequestContext,
    owner: Principal,
) -> None:
    tokens = context.services.controller.delegation_tokens
    token = await tokens.create(owner, context.principal, _renewers(request), request.max_lifetime_ms)
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.id
    response.hmac = tokens.hmac(token.id)


def _renewers(request: CreateDelegationTokenRequest) -> list[Principal]:
    return [Principal(each.principal_type, each.principal_name) for each in request.renewers]


def _response(owner: Principal, requester: Principal, version: int) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(principal_type=owner.type, principal_name=owner.name)
    if version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response


def refuse(
    request: CreateDelegationTokenRequest, version: int, code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    """An unexpected error, which names nobody."""
    response = _response(ANONYMOUS, ANONYMOUS, version)
    response.error_code = code
    return response


API = Api(ApiKey.CREATE_DELEGATION_TOKEN, served=(1, 3), handle=handle, error_response=refuse)
