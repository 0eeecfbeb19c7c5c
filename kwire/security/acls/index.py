"""The rules by which access control lists decide: those of Apache Kafka's `StandardAuthorizer`.

- An entry applies if its pattern covers the resource (literal, prefixed or ``*``), its principal is the client's or
  ``User:*``, its host the client's address or ``*``, and its operation the wanted one or ALL.
- Any entry that denies wins. Otherwise an entry that allows is enough.
- An entry that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE; ALTER_CONFIGS also allows DESCRIBE_CONFIGS.
- A resource that no entry at all covers is open only with `allow.everyone.if.no.acl.found`.
- Super users may do everything.

`AclIndex` is immutable. A change of the entries makes a new one, which shares with the old one what has not changed. A
decision looks up as many names as there are different lengths of prefixes, and costs the same with ten entries as with
ten thousand. What lives elsewhere: how entries change (`kwire.cluster`), who asks (`kwire.handlers.acl_authorizer`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kwire.security.acls.bindings import WILDCARD, WILDCARD_PRINCIPAL, AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

_EVERY: Final = (1 << (max(AclOperation) + 1)) - 1
_DESCRIBE: Final = 1 << AclOperation.DESCRIBE
_IMPLIED: Final = {
    AclOperation.READ: _DESCRIBE,
    AclOperation.WRITE: _DESCRIBE,
    AclOperation.DELETE: _DESCRIBE,
    AclOperation.ALTER: _DESCRIBE,
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
"""The operation that an allowed one allows, too."""


class _Bits(NamedTuple):
    """Operations in the entries of one pattern, principal and host; bit n is operation n. ``allowed`` has what
    ``granted`` says and what that implies."""

    denied: int
    allowed: int
    granted: int


Pattern = tuple[ResourceType, PatternType, str]
"""The type of a resource, and the type and name of the pattern of an entry."""

_Hosts = dict[str, _Bits]
_Principals = dict[str, _Hosts]
_NOTHING: Final = _Bits(0, 0, 0)


class _Patterns:
    """The entries on one type of resource, by the name and type of their patterns, principal and host."""

    __slots__ = ("_named", "lengths", "literal", "prefixed")

    def __init__(self, literal: dict[str, _Principals], prefixed: dict[str, _Principals]) -> None:
        self.literal = literal
        self.prefixed = prefixed
        self._named: dict[str, _Patterns] = {}
        self.lengths: Sequence[int] = sorted({len(prefix) for prefix in prefixed})

    def changed(self, patterns: Iterable[tuple[Pattern, Sequence[AclBinding]]]) -> _Patterns:
        """These entries, with others for some patterns."""
        literal, prefixed = dict(self.literal), dict(self.prefixed)
        for (_, pattern_type, name), bindings in patterns:
            entries = prefixed if pattern_type is PatternType.PREFIXED else literal
            if bindings:
                entries[name] = _arranged(bindings)
            else:
                entries.pop(name, None)
        return _Patterns(literal, prefixed)

    def naming(self, principal: str) -> _Patterns:
        """The patterns with entries for a principal or for everybody. The first call looks at all entries."""
        if not self._named and (self.literal or self.prefixed):
            literal, prefixed = _by_principal(self.literal), _by_principal(self.prefixed)
            for each in dict.fromkeys((*literal, *prefixed)):
                self._named[each] = _Patterns(literal.get(each, {}), prefixed.get(each, {}))
        own, everybodys = self._named.get(principal, _NO_PATTERNS), self._named.get(WILDCARD_PRINCIPAL)
        if everybodys is None:
            return own
        return _Patterns({**everybodys.literal, **own.literal}, {**everybodys.prefixed, **own.prefixed})

    def covering(self, name: str) -> Iterator[_Principals]:
        """The entries of each pattern that covers a resource."""
        literal = self.literal
        if name in literal:
            yield literal[name]
        if WILDCARD in literal and name != WILDCARD:
            yield literal[WILDCARD]
        prefixed = self.prefixed
        for length in self.lengths:
            if length > len(name):
                return
            principals = prefixed.get(name[:length])
            if principals is not None:
                yield principals


_NO_HOSTS: Final[_Hosts] = {}
_NO_PATTERNS: Final = _Patterns({}, {})
_NAME_FOR_ANY: Final = "hardcode"
"""The resource that Kafka asks about to learn whether a principal may do an operation on all resources of a type."""


class AclIndex:
    """The entries of a cluster, arranged for decisions. ``super_users``: principals such as ``User:admin``;
    ``open_without_entries``: `allow.everyone.if.no.acl.found`. Make the first with `of`, later ones with `changed`."""

    __slots__ = ("_open", "_super_users", "_types")

    def __init__(
        self, types: Mapping[ResourceType, _Patterns], super_users: Collection[str], open_without_entries: bool
    ) -> None:
        self._types = types
        self._super_users = frozenset(super_users)
        self._open = open_without_entries

    @classmethod
    def of(
        cls,
        bindings: Iterable[AclBinding] = (),
        *,
        super_users: Collection[str] = (),
        open_without_entries: bool = False,
    ) -> AclIndex:
        """An index of these entries."""
        return cls({}, super_users, open_without_entries).changed(by_pattern(bindings))

    def changed(self, patterns: Mapping[Pattern, Sequence[AclBinding]]) -> AclIndex:
        """This index, with other entries for some patterns (an empty list: none any more)."""
        by_type: dict[ResourceType, list[tuple[Pattern, Sequence[AclBinding]]]] = {}
        for pattern, bindings in patterns.items():
            by_type.setdefault(pattern[0], []).append((pattern, bindings))
        types = dict(self._types)
        for resource_type, each in by_type.items():
            after = types.get(resource_type, _NO_PATTERNS).changed(each)
            if after.literal or after.prefixed:
                types[resource_type] = after
            else:
                types.pop(resource_type, None)
        return AclIndex(types, self._super_users, self._open)

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a principal (``User:alice``) at an address may do an operation on a resource."""
        if principal in self._super_users:
            return True
        patterns = self._types.get(resource_type)
        if patterns is None:
            return self._open
        covered = False
        denied = allowed = 0
        for principals in patterns.covering(name):
            covered = True
            for bits in _entries_for(principals, principal, host):
                denied |= bits.denied
                allowed |= bits.allowed
        if not covered:
            return self._open
        return bool(allowed & ~denied & 1 << operation)

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of a type on which a principal at an address may do an operation (KIP-679,
        `Authorizer.authorizeByResourceType`). An implied operation counts only where it is allowed on all resources,
        as in Kafka."""
        if self.allows(principal, host, operation, resource_type, _NAME_FOR_ANY):
            return True
        patterns = self._types.get(resource_type)
        if patterns is None:
            return False
        patterns = patterns.naming(principal)
        bit = 1 << operation
        denied, granted = _names(patterns.literal, principal, host, bit)
        denied_prefixes, granted_prefixes = _names(patterns.prefixed, principal, host, bit)
        if WILDCARD in denied:
            return False
        if WILDCARD in granted:
            return True
        if not denied_prefixes:
            return bool(granted_prefixes or granted - denied)
        return any(
            not any(name[:end] in denied_prefixes for end in range(1, len(name) + 1))
            for name in [*(granted - denied), *granted_prefixes]
        )


def by_pattern(bindings: Iterable[AclBinding]) -> dict[Pattern, list[AclBinding]]:
    """Entries by their patterns."""
    found: dict[Pattern, list[AclBinding]] = {}
    for binding in bindings:
        found.setdefault(pattern_of(binding), []).append(binding)
    return found


def pattern_of(binding: AclBinding) -> Pattern:
    """The pattern of an entry."""
    return binding.resource_type, binding.pattern_type, binding.resource_name


def _by_principal(patterns: dict[str, _Principals]) -> dict[str, dict[str, _Principals]]:
    """The patterns that have entries for each principal."""
    found: dict[str, dict[str, _Principals]] = {}
    for name, principals in patterns.items():
        for principal in principals:
            found.setdefault(principal, {})[name] = principals
    return found


def _arranged(bindings: Iterable[AclBinding]) -> _Principals:
    """The entries of one pattern, by principal and host."""
    principals: _Principals = {}
    for binding in bindings:
        hosts = principals.setdefault(binding.principal, {})
        denied, allowed, granted = hosts.get(binding.host, _NOTHING)
        bits = _EVERY if binding.operation is AclOperation.ALL else 1 << binding.operation
        if binding.permission is PermissionType.DENY:
            denied |= bits
        else:
            granted |= bits
            allowed |= bits | _IMPLIED.get(binding.operation, 0)
        hosts[binding.host] = _Bits(denied, allowed, granted)
    return principals


def _entries_for(principals: _Principals, principal: str, host: str) -> Iterator[_Bits]:
    """The entries of a pattern that apply to a principal at an address."""
    for who in (principal, WILDCARD_PRINCIPAL):
        hosts = principals.get(who, _NO_HOSTS)
        for where in (host, WILDCARD):
            if where in hosts:
                yield hosts[where]


def _names(patterns: dict[str, _Principals], principal: str, host: str, bit: int) -> tuple[set[str], set[str]]:
    """The names of the patterns in which an operation is denied to a principal, and those in which it is granted."""
    denied: set[str] = set()
    granted: set[str] = set()
    for name, principals in patterns.items():
        for bits in _entries_for(principals, principal, host):
            if bits.denied & bit:
                denied.add(name)
            if bits.granted & bit:
                granted.add(name)
    return denied, granted
