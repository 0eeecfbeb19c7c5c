"""Decisions about SCRAM credentials (KIP-554): which alterations of one request are made, and why others are not.

What lives elsewhere: what a credential is (`kwire.security.scram_credentials`), the command that writes the same keys
without a broker (`kwire.server.users`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.cluster.controller.plan import Plan
from kwire.cluster.metadata.credentials import pack_credential
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.store import keys
from kwire.cluster.store.store import KEY_CHARACTERS_MAX
from kwire.security.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    ScramMechanism,
    credential_of,
)


class CredentialDeletion(NamedTuple):
    """Delete a user's credential of a mechanism (by its code)."""

    user: str
    mechanism: int


class CredentialUpsertion(NamedTuple):
    """Create or replace a user's credential of a mechanism (by its code). The client has salted the password."""

    user: str
    mechanism: int
    salted_password: bytes
    salt: bytes
    iterations: int


CredentialChange = CredentialDeletion | CredentialUpsertion


class Alterations(NamedTuple):
    """What is made of one request, by user: the changes, and why nothing is changed for others."""

    deletions: dict[str, CredentialDeletion]
    upsertions: dict[str, CredentialUpsertion]
    errors: dict[str, KafkaError]


def plan_alterations(image: ClusterImage, plan: Plan, changes: Sequence[CredentialChange]) -> Alterations:
    """Sort out a request, whose deletions come first, and plan what is accepted. A user that is named twice keeps all
    credentials."""
    found = Alterations({}, {}, {})
    for change in changes:
        if change.user not in found.errors:
            _accept(image, found, change)
    for deletion in found.deletions.values():
        plan.write(keys.scram_key(deletion.mechanism, deletion.user), None)
    for upsertion in list(found.upsertions.values()):
        if upsertion.salted_password:
            plan.write(keys.scram_key(upsertion.mechanism, upsertion.user), _value(upsertion))
        else:  # Java has no HMAC with an empty key
            del found.upsertions[upsertion.user]
            found.errors[upsertion.user] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return found


def _accept(image: ClusterImage, found: Alterations, change: CredentialChange) -> None:
    """Add a change to those that are made, or an error."""
    user = change.user
    if found.deletions.pop(user, None) or found.upsertions.pop(user, None):
        found.errors[user] = KafkaError(
            ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        )
        return
    try:
        check_name(user)
        if change.mechanism not in MECHANISMS.values():
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, CredentialDeletion):
            if image.scram_credential(change.mechanism, user) is None:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
            found.deletions[user] = change
        else:
            check_iterations(change.iterations)
            found.upsertions[user] = change
    except KafkaError as error:
        found.errors[user] = as_value(error)


def check_name(user: str) -> None:
    """UNACCEPTABLE_CREDENTIAL for a name that no user can have. Kafka has no limit of the length."""
    if not user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(keys.scram_key(ScramMechanism.SHA_256, user)) > KEY_CHARACTERS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username is too long")


def check_iterations(iterations: int) -> None:
    """UNACCEPTABLE_CREDENTIAL for a number outside of Kafka's limits."""
    if iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _value(upsertion: CredentialUpsertion) -> bytes:
    mechanism = ScramMechanism(upsertion.mechanism)
    return pack_credential(credential_of(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations))
