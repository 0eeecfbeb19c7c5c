"""Mutants of access control in a cluster: when a change holds, and who may decide.

Seeds of `campaigns.simulated_cluster --access` must notice them. How mutants are run: `campaigns.mutants`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import PropertyMock, patch

from campaigns import simulated_cluster
from campaigns.mutants.mutant import Mutant
from kwire.cluster.controller import acl_confirmations
from kwire.cluster.controller.membership import Membership
from kwire.handlers.acl_authorizer import AclAuthorizer

SEEDS = 300


def _seeds(first: int, count: int) -> tuple[Counter[str], list[str]]:
    for seed in range(first, first + count):
        wrong = simulated_cluster.run(seed, access=True).wrong
        if wrong:
            return Counter(), [f"seed {seed}: {wrong[0]}"]
    return Counter(), []


def _acknowledged_at_once() -> Any:
    return patch.object(acl_confirmations, "_unconfirmed", lambda *_: [])


def _decides_unregistered() -> Any:
    return patch.object(Membership, "stands", PropertyMock(return_value=True))


def _keeps_decisions() -> Any:
    return patch.object(AclAuthorizer, "_made", lambda self, context: context.decisions.made)


MUTANTS: dict[str, Mutant] = {
    "acl-change-unconfirmed": Mutant("a change is acknowledged when it holds", _acknowledged_at_once, _seeds, SEEDS),
    "decides-unregistered": Mutant("only registered brokers decide", _decides_unregistered, _seeds, SEEDS),
    "decision-kept": Mutant("a change ends earlier decisions", _keeps_decisions, _seeds, SEEDS),
}
