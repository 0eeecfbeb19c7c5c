"""DescribeUserScramCredentials (API key 50): the mechanisms and iterations of users' SCRAM credentials (KIP-554).

Behaviour:

- No user in the request (null or an empty list) stands for everybody who has a credential.
- RESOURCE_NOT_FOUND for a user without credentials, DUPLICATE_RESOURCE for one that is named twice.
- Salts and keys are never sent.

Versions: 0.
"""

from __future__ import annotations

from collections import Counter

from kwire.base.errors import ErrorCode
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kwire.codec.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.runtime.java_hash import hash_map_order
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: DescribeUserScramCredentialsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Describe the credentials in this broker's image."""
    infos: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in sorted(context.services.image.scram_credentials.items()):
        infos.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    names = [each.name for each in request.users or ()]
    counts = Counter(names)
    return DescribeUserScramCredentialsResponse(
        results=[
            _repeated(user) if counts[user] > 1 else _result(user, infos.get(user))
            for user in hash_map_order(names or infos)
        ]
    )


def _result(user: str, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if infos is not None:
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {user}",
    )


def _repeated(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """A top-level error, and the same error for each user, without the name, as in Kafka."""
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[
            DescribeUserScramCredentialsResult(error_code=code, error_message=message) for _ in request.users or ()
        ],
    )


API = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=refuse,
)
