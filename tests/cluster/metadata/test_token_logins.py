"""Logins with delegation tokens cost little, whatever strangers send."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kwire.cluster.metadata import token_logins
from kwire.cluster.metadata.token_logins import KEPT_MAX, TokenLogins
from kwire.security.delegation_tokens import DelegationToken
from kwire.security.principals import Principal
from kwire.security.scram_credentials import ScramMechanism


class Image:
    """As much of a cluster's image as logins need: it has the tokens whose ids begin with "known"."""

    def delegation_token(self, token_id: str) -> DelegationToken | None:
        if not token_id.startswith("known"):
            return None
        owner = Principal("User", "alice")
        return DelegationToken(token_id, owner, owner, (), issued_ms=0, max_ms=2000, expiry_ms=1000)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The salts of the credentials that were computed."""
    found: list[bytes] = []

    def make(_mechanism: object, _password: object, salt: bytes, _iterations: object) -> Any:
        found.append(salt)
        return salt

    monkeypatch.setattr(token_logins, "make_credential", make)
    return found


def test_nothing_is_computed_for_tokens_that_do_not_exist_or_have_expired(computed: list[bytes]) -> None:
    now_ms = [0]
    logins = TokenLogins("secret", lambda: cast(Any, Image()), lambda: now_ms[0])
    assert logins.credential(ScramMechanism.SHA_256, "unknown") is None
    now_ms[0] = 1001
    assert logins.credential(ScramMechanism.SHA_256, "known") is None
    assert computed == []


def test_a_token_is_computed_once_and_the_oldest_is_forgotten(computed: list[bytes]) -> None:
    logins = TokenLogins("secret", lambda: cast(Any, Image()), lambda: 0)
    for _ in range(3):
        for number in range(KEPT_MAX):
            logins.credential(ScramMechanism.SHA_256, f"known {number}")
    assert len(computed) == KEPT_MAX
    logins.credential(ScramMechanism.SHA_256, "known and new")
    logins.credential(ScramMechanism.SHA_256, f"known {KEPT_MAX - 1}")
    assert len(computed) == KEPT_MAX + 1
