"""Mutants of access control in a cluster: when a change holds, and who may decide.

Seeds of `campaigns.simulated_cluster --access` must notice them. How mutants are run: `campaigns.mutants`.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import PropertyMock, patch

from campaigns.mutants.cluster import seeds
from campaigns.mutants.mutant import Mutant
from kwire.cluster.controller import acl_confirmations
from kwire.cluster.controller.membership import Membership
from kwire.handlers.acl_authorizer import AclAuthorizer

SEEDS = 300
_seeds = partial(seeds, access=True)


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
