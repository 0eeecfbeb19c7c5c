"""Rows of ``scripts/bench --micro`` about access control: decisions with 10,000 ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle

from harness.services import services_with
from kwire.cluster.metadata.acls import acl_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.context import Decisions, RequestContext
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import Principal

ACLS = 10_000


def operations() -> dict[str, Callable[[], object]]:
    """The operations that are timed, by name."""
    acls = {acl_key(each): each for each in _entries()}
    more = {**acls, **{acl_key(each): each for each in _entries(host="10.9.9.9")}}
    fewer = dict(list(acls.items())[:-1])
    authorizer = AclAuthorizer({"User:root"})
    authorizer.follow(ClusterImage(acls=acls))
    context = RequestContext(services_with(authorizer=authorizer), principal=Principal("User", "u154"))
    write = Operation(AclOperation.WRITE, ResourceType.TOPIC, "topic-77")
    key = tuple(write)
    images = cycle((ClusterImage(acls=fewer), ClusterImage(acls=acls)))
    large = cycle((ClusterImage(acls=more), ClusterImage(acls=acls)))

    def uncached() -> None:
        context.decisions = Decisions()
        authorizer.authorize(context, write)

    def some() -> None:
        context.decisions = Decisions()
        authorizer.authorize_some(context, AclOperation.WRITE, ResourceType.TOPIC)

    def known() -> bool:
        return authorizer.has_allowed(context.decisions, key)  # type: ignore[arg-type] # the fields of an Operation

    return {
        "ACLs: a decision that is kept": lambda: authorizer.authorize(context, write),
        "ACLs: whether a decision is kept": known,
        f"ACLs: a decision, {ACLS:,} ACLs": uncached,
        f"ACLs: a decision by type, {ACLS:,} ACLs": some,
        f"ACLs: one of {ACLS:,} changes": lambda: authorizer.follow(next(images)),
        "ACLs: 500 of them change": lambda: authorizer.follow(next(large)),
    }


def _entries(host: str = "*") -> Iterable[AclBinding]:
    """Entries of 500 users on 5,000 names, one in ten of which are prefixes; with a host, 500 of them."""
    for number in range(ACLS if host == "*" else 500):
        yield AclBinding(
            ResourceType.TOPIC,
            f"topic-{number // 2}",
            PatternType.PREFIXED if number % 10 == 0 else PatternType.LITERAL,
            f"User:u{number % 500}",
            host,
            (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)[number % 3],
            PermissionType.DENY if number % 17 == 0 else PermissionType.ALLOW,
        )
