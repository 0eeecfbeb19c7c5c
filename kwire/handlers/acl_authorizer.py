"""`AclAuthorizer`: decides by the access control lists of the cluster, as Kafka's `StandardAuthorizer`.

What was decided for a client is kept with its connection, until an entry is added or deleted. What lives elsewhere: the
rules (`kwire.security.acls.index`), adding and deleting entries (`kwire.cluster.controller.acls`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from kwire.base.doors import Clock
from kwire.base.logging import DEBUG
from kwire.handlers.audit.decisions import DecisionLog
from kwire.handlers.context import Authorizer, Decisions, Purpose
from kwire.security.acls.index import ANY_NAME, AclIndex, by_pattern, pattern_of
from kwire.security.acls.operations import Operation

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.handlers.context import RequestContext
    from kwire.security.acls.bindings import AclBinding
    from kwire.security.acls.operations import AclOperation, ResourceType

KEPT_MAX: Final = 4096
"""Decisions kept for a connection; more begin anew."""

KEPT_NAME_MAX: Final = 255
"""Characters in the name of a resource about which a decision is kept. The longest name of a topic has 249; a client
could fill the memory with decisions about longer ones, which may have 32,767."""


class AclAuthorizer(Authorizer):
    """Follows the entries of the image. ``super_users`` are texts such as ``User:admin``; ``open_without_entries`` is
    `allow.everyone.if.no.acl.found`."""

    allows_all = False

    def __init__(
        self,
        super_users: Collection[str] = (),
        *,
        open_without_entries: bool = False,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._log = DecisionLog(monotonic or Clock().monotonic)
        self._logger = self._log.logger
        self._acls: dict[str, AclBinding] = {}
        self._index = AclIndex.of(super_users=super_users, open_without_entries=open_without_entries)

    def follow(self, image: ClusterImage, _delta: object = None) -> None:
        """Decide by the entries of an image from now on."""
        before, after = self._acls, image.acls
        if after is before:
            return
        changed = {pattern_of((after if key in after else before)[key]) for key in before.keys() ^ after.keys()}
        found = by_pattern(binding for binding in after.values() if pattern_of(binding) in changed)
        self._acls = after
        self._index = self._index.changed({pattern: found.get(pattern, []) for pattern in sorted(changed)})

    def authorize(self, context: RequestContext, operation: Operation, purpose: Purpose = Purpose.ACCESS) -> bool:
        """Whether the request's principal may do an operation."""
        made = self._made(context)
        allowed = made.get(operation)
        if allowed is None:
            allowed = self._index.allows(str(context.principal), context.client_host[1:], *operation)
            if len(operation.resource_name) <= KEPT_NAME_MAX:
                made[operation] = allowed
        if not allowed or self._logger.level <= DEBUG:
            self._audit(context, operation, allowed, purpose)
        return allowed

    def authorize_some(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of a type on which the principal may do an operation (KIP-679)."""
        made = self._made(context)
        allowed = made.get((operation, resource_type, None))
        if allowed is None:
            principal, host = str(context.principal), context.client_host[1:]
            allowed = self._index.allows_some(principal, host, operation, resource_type)
            made[operation, resource_type, None] = allowed
        if self._logger.level <= DEBUG:
            self.authorize(context, Operation(operation, resource_type, ANY_NAME), Purpose.CHOICE)
        return allowed

    def has_allowed(self, decisions: Decisions, operation: tuple[AclOperation, ResourceType, str]) -> bool:
        """Whether an operation is known to be allowed to the client of these decisions, and needs no line in the audit
        log."""
        return decisions.basis is self._index and decisions.made.get(operation, False) and self._logger.level > DEBUG

    def _audit(self, context: RequestContext, operation: Operation, allowed: bool, purpose: Purpose) -> None:
        def rule() -> str:
            return self._index.rule(str(context.principal), context.client_host[1:], *operation)

        self._log.write(context, operation, allowed, purpose, rule)

    def _made(self, context: RequestContext) -> dict[tuple[AclOperation, ResourceType, str | None], bool]:
        """The decisions for the client that are still valid."""
        decisions = context.decisions
        if decisions.basis is not self._index:
            decisions.basis, decisions.made = self._index, {}
        elif len(decisions.made) >= KEPT_MAX:
            decisions.made = {}
        return decisions.made
