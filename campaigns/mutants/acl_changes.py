"""Mutants of when a change of ACLs holds, which `campaigns.acls.changes` must notice."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from campaigns.acls import changes
from campaigns.mutants.mutant import Mutant, together
from kwire.cluster.controller import acl_confirmations
from kwire.handlers.acl_authorizer import AclAuthorizer

DELAY_S = 0.02


def _keeps_decisions() -> Any:
    return patch.object(AclAuthorizer, "_made", lambda self, context: context.decisions.made)


def _acknowledged_before_others_follow() -> Any:
    follow = AclAuthorizer.follow

    def follow_later(self: AclAuthorizer, image: Any, delta: object = None) -> None:
        asyncio.get_running_loop().call_later(DELAY_S, follow, self, image, delta)

    unconfirmed: Any = patch.object(acl_confirmations, "_unconfirmed", lambda *_: [])
    return together(unconfirmed, patch.object(AclAuthorizer, "follow", follow_later))


MUTANTS: dict[str, Mutant] = {
    "decision-outlives-change": Mutant("a change ends earlier decisions", _keeps_decisions, changes.run_seeds, 3),
    "acknowledged-too-early": Mutant(
        "a change is acknowledged when it holds", _acknowledged_before_others_follow, changes.run_seeds, 3
    ),
}
