"""Mutants of the rules of ACLs, which the comparison with Kafka's authorizer must notice (`campaigns.acls`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from campaigns.acls import decisions
from campaigns.mutants.mutant import Mutant
from kwire.security.acls import index


def _no_denials() -> Any:
    entries_for = index._entries_for

    def without_denials(*arguments: Any) -> Iterator[Any]:
        return (bits._replace(denied=0) for bits in entries_for(*arguments))

    return patch.object(index, "_entries_for", without_denials)


def _nobody_is_everybody() -> Any:
    return patch.object(index, "WILDCARD_PRINCIPAL", "User:nobody")


def _nothing_implied() -> Any:
    return patch.dict(index._IMPLIED, clear=True)


def _any_prefix_length() -> Any:
    covering = index._Patterns.covering

    def of_the_shortest(self: index._Patterns, name: str) -> Iterator[Any]:
        self.lengths = self.lengths[:1]
        return covering(self, name)

    return patch.object(index._Patterns, "covering", of_the_shortest)


MUTANTS: dict[str, Mutant] = {
    "no-denials": Mutant("a denial outweighs permissions", _no_denials, decisions.run_seeds, 1),
    "nobody-is-everybody": Mutant("entries for User:*", _nobody_is_everybody, decisions.run_seeds, 1),
    "nothing-implied": Mutant("operations that others imply", _nothing_implied, decisions.run_seeds, 1),
    "shortest-prefix": Mutant("every prefix of a name counts", _any_prefix_length, decisions.run_seeds, 1),
}
