"""One access control entry on a pattern of resources, and filters that select such entries.

`AclBinding` and `AclFilter` are Kafka's `AclBinding` and `AclBindingFilter`; codes and names are Kafka's. What lives
elsewhere: how bindings decide (`index`), where they are stored (`kwire.cluster.metadata`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from kwire.security.acls.operations import AclOperation, ResourceType

WILDCARD: Final = "*"
"""Every resource, host or name of a principal."""

WILDCARD_PRINCIPAL: Final = "User:*"
"""The principal of entries for everybody, whatever the type of their principal."""


class PatternType(IntEnum):
    """How the name of a binding or filter selects resources: the codes of Kafka's `PatternType`."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an entry allows or denies: the codes of Kafka's `AclPermissionType`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """An entry: a principal on a host may, or may not, do an operation on the resources of a pattern.

    ``principal`` is a text such as ``User:alice``; ``host`` an address or `WILDCARD`, never a host name.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    def covers(self, name: str) -> bool:
        """Whether the pattern applies to a resource of its type."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """Selects bindings. ANY and None select all; with the pattern type MATCH, ``resource_name`` is the name of a
    resource and the bindings that apply to it are selected."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Whether the filter selects a binding."""
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_pattern(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (PermissionType.ANY, binding.permission)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.resource_name is None or binding.covers(self.resource_name)
        if self.pattern_type not in (PatternType.ANY, binding.pattern_type):
            return False
        return self.resource_name in (None, binding.resource_name)
