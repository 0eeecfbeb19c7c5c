"""DescribeDelegationToken (API key 41): delegation tokens, with the HMACs that log in (KIP-48).

Behaviour:

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client has logged in, and not with a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- A client sees the tokens that it owns, has requested or may renew. Others it sees with DESCRIBE on the token or
  DESCRIBE_TOKENS on the owner; without access control everybody sees all tokens, as in Kafka.
- Owners in the request leave out the tokens that none of them owns, has requested or may renew. Null is no filter, an
  empty list finds nothing.
- Expired tokens are described until they are removed.

Versions: 1; 2 flexible; 3 requester (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kwire.codec.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import is_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.security.token_access import require_login
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import Principal

if TYPE_CHECKING:
    from kwire.security.delegation_tokens import DelegationToken


def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    """Describe the tokens in this broker's image."""
    require_login(context)
    services = context.services
    tokens = services.controller.delegation_tokens
    if not tokens.enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [Principal(each.principal_type, each.principal_name) for each in request.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, tokens.hmac(token.id), context.api_version)
            for token in services.image.delegation_tokens.values()
            if _is_wanted(token, owners) and _is_visible(token, context)
        ]
    )


def _is_wanted(token: DelegationToken, owners: Sequence[Principal] | None) -> bool:
    return owners is None or any(token.is_visible_to(owner) for owner in owners)


def _is_visible(token: DelegationToken, context: RequestContext) -> bool:
    return (
        token.is_visible_to(context.principal)
        or is_allowed(context, Operation(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id))
        or is_allowed(context, Operation(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner)))
    )


def _described(token: DelegationToken, hmac: bytes, version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
    if version >= 3:
        described.token_requester_principal_type, described.token_requester_principal_name = token.requester
    return described


API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, served=(1, 3), handle=handle)
