"""SCRAM credentials and delegation tokens in the metadata store: their values, and their part of the image.

A credential holds what verifies a password, not the password. A token's value does not hold its HMAC, which is the
password of a login with it: every broker computes it from the token id and `delegation.token.secret.key`.

The image imports this module when the store has such keys. What lives elsewhere: decisions
(`kwire.cluster.controller.credentials`), logins (`token_logins`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from kwire.cluster.store import keys
from kwire.security.delegation_tokens import DelegationToken
from kwire.security.principals import Principal
from kwire.security.scram_credentials import ScramCredential

Changes = Iterable[tuple[str, bytes | None]]
"""Keys with their new values; None: deleted."""

ScramCredentials = dict[tuple[int, str], ScramCredential]
"""Credentials by mechanism code and user."""

DelegationTokens = dict[str, DelegationToken]
"""Tokens by id."""


def pack_credential(credential: ScramCredential) -> bytes:
    """The value of a credential."""
    return keys.pack(
        salt=_text(credential.salt),
        stored=_text(credential.stored_key),
        server=_text(credential.server_key),
        iterations=credential.iterations,
    )


def unpack_credential(key: str, value: bytes) -> ScramCredential:
    """The inverse of `pack_credential`. `StoreFormatError`."""
    fields = keys.unpack(key, value)
    salt, stored, server = (base64.b64decode(fields[name]) for name in ("salt", "stored", "server"))
    return ScramCredential(salt, stored, server, fields["iterations"])


def pack_token(token: DelegationToken) -> bytes:
    """The value of a token."""
    return keys.pack(
        owner=list(token.owner),
        requester=list(token.requester),
        renewers=[list(each) for each in token.renewers],
        issued=token.issued_ms,
        max=token.max_ms,
        expiry=token.expiry_ms,
    )


def unpack_token(key: str, value: bytes) -> DelegationToken:
    """The inverse of `pack_token`. `StoreFormatError`."""
    fields = keys.unpack(key, value)
    return DelegationToken(
        key.removeprefix(keys.DELEGATION_TOKENS),
        Principal(*fields["owner"]),
        Principal(*fields["requester"]),
        tuple(Principal(*each) for each in fields["renewers"]),
        fields["issued"],
        fields["max"],
        fields["expiry"],
    )


def changed_credentials(present: ScramCredentials, changes: Changes) -> ScramCredentials:
    """The credentials after changes of their keys."""
    after = dict(present)
    for key, value in changes:
        user = keys.scram_user(key)
        if value is None:
            after.pop(user, None)
        else:
            after[user] = unpack_credential(key, value)
    return after


def changed_tokens(present: DelegationTokens, changes: Changes) -> DelegationTokens:
    """The tokens after changes of their keys."""
    after = dict(present)
    for key, value in changes:
        if value is None:
            after.pop(key.removeprefix(keys.DELEGATION_TOKENS), None)
        else:
            token = unpack_token(key, value)
            after[token.id] = token
    return after


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
