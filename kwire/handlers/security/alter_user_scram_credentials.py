"""AlterUserScramCredentials (API key 51): create, replace and delete users' SCRAM credentials (KIP-554).

Behaviour:

- The client has salted the password; from the salted password the stored key and the server key are computed. Only
  these are kept.
- There is one result per user: first the deleted credentials, then the created and replaced ones, then the errors.
- UNACCEPTABLE_CREDENTIAL for an empty (or, other than in Kafka, very long) name and for less than 4,096 or more than
  16,384 iterations, UNSUPPORTED_SASL_MECHANISM for an unknown mechanism, RESOURCE_NOT_FOUND for the deletion of a
  credential that does not exist.
- DUPLICATE_RESOURCE for a user that is named twice; none of the user's credentials is altered.

Versions: 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kwire.codec.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.runtime.java_hash import hash_map_order
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: AlterUserScramCredentialsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Have the controller alter the credentials."""
    from kwire.cluster.controller.credentials import CredentialDeletion, CredentialUpsertion

    deletions = [CredentialDeletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        CredentialUpsertion(each.name, each.mechanism, bytes(each.salted_password), bytes(each.salt), each.iterations)
        for each in request.upsertions
    ]
    found = await context.services.controller.alter_scram_credentials([*deletions, *upsertions])
    return AlterUserScramCredentialsResponse(
        results=[
            *_results(found.deletions),
            *_results(found.upsertions),
            *(_result(user, found.errors[user]) for user in hash_map_order(found.errors)),
        ]
    )


def refuse(
    request: AlterUserScramCredentialsRequest, version: int, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """The same error for each user, once."""
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    error = KafkaError(code, message)
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in hash_map_order(names)])


def _results(users: Iterable[str]) -> list[AlterUserScramCredentialsResult]:
    return [_result(user) for user in hash_map_order(users)]


def _result(user: str, error: KafkaError | None = None) -> AlterUserScramCredentialsResult:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)


API = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
)
