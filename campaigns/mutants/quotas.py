"""Mutants of the precedence of quotas, which the comparison with Kafka's classes must notice (`campaigns.quotas`)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant
from campaigns.quotas import precedence
from kwire.quotas import limits


def _users_first() -> Any:
    find = limits._Levels.find

    def with_users_first(self: limits._Levels, user: str, client_id: str) -> limits.Limit | None:
        value = self.users.get(user)
        return find(self, user, client_id) if value is None else limits.Limit(value, user, None)

    return patch.object(limits._Levels, "find", with_users_first)


def _client_ids_without_users() -> Any:
    of_client = limits._Levels._of_client
    return patch.object(limits._Levels, "_find_nameless", lambda self, _user, client_id: of_client(self, client_id))


def _addresses_as_written() -> Any:
    return patch.object(limits, "canonical_address", lambda text: text)


MUTANTS: dict[str, Mutant] = {
    "users-first": Mutant("a client id of a user comes before the user", _users_first, precedence.run_seeds, 1),
    "nameless": Mutant("clients without a client id", _client_ids_without_users, precedence.run_seeds, 1),
    "addresses-as-written": Mutant("one address, two texts", _addresses_as_written, precedence.run_seeds, 1),
}
