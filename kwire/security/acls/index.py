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
from kwire.security.acls.operations import AclOperation, ResourceType, pascal_case

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


class _Names(NamedTuple):
    """The names of the patterns with entries of one principal, host and operation: which entries deny, which allow."""

    denied: set[str]
    granted: set[str]
    denied_prefixes: set[str]
    granted_prefixes: set[str]


_NamesOf = dict[tuple[str, str, int], _Names]
"""By principal, host and operation (ALL by itself)."""


class _Patterns:
    """The entries on one type of resource, by the name and type of their patterns, principal and host."""

    __slots__ = ("_names", "lengths", "literal", "prefixed")

    def __init__(self, literal: dict[str, _Principals], prefixed: dict[str, _Principals]) -> None:
        self.literal = literal
        self.prefixed = prefixed
        self._names: _NamesOf = {}
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

    def naming(self, principal: str, host: str, operation: AclOperation) -> list[_Names]:
        """The names of the patterns with entries for a principal at an address and an operation. The first call looks
        at all entries."""
        if not self._names and (self.literal or self.prefixed):
            self._names = _arranged_names(self.literal, self.prefixed)
        found = []
        for who in (principal, WILDCARD_PRINCIPAL):
            for where in (host, WILDCARD):
                for what in (operation, AclOperation.ALL):
                    names = self._names.get((who, where, what))
                    if names is not None:
                        found.append(names)
        return found

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

    def named(self, name: str) -> Iterator[tuple[PatternType, str, _Principals]]:
        """The patterns that cover a resource, each with its type, its name and its entries."""
        for pattern in dict.fromkeys((name, WILDCARD)):
            if pattern in self.literal:
                yield PatternType.LITERAL, pattern, self.literal[pattern]
        for length in self.lengths:
            if name[:length] in self.prefixed and length <= len(name):
                yield PatternType.PREFIXED, name[:length], self.prefixed[name[:length]]


_NO_HOSTS: Final[_Hosts] = {}
_NO_PATTERNS: Final = _Patterns({}, {})
ANY_NAME: Final = "hardcode"
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
        if self.allows(principal, host, operation, resource_type, ANY_NAME):
            return True
        patterns = self._types.get(resource_type)
        if patterns is None:
            return False
        found = patterns.naming(principal, host, operation)
        if any(WILDCARD in names.denied for names in found):
            return False
        if any(WILDCARD in names.granted for names in found):
            return True
        return any(not _is_denied(name, found) for names in found for name in names.granted) or any(
            not _is_denied_prefix(name, found) for names in found for name in names.granted_prefixes
        )

    def rule(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> str:
        """What `allows` decides by, for the audit log: an entry, or one of Kafka's words ``SuperUser``,
        ``DefaultAllow`` (no entry covers the resource) and ``DefaultDeny``."""
        if principal in self._super_users:
            return "SuperUser"
        covered, allowing = False, ""
        for pattern_type, pattern, principals in self._types.get(resource_type, _NO_PATTERNS).named(name):
            covered = True
            for who, where, bits in _applying(principals, principal, host):
                text = f"{who} from {where} on {pascal_case(resource_type.name)}:{pattern_type.name}:{pattern}"
                if bits.denied >> operation & 1:
                    return f"DENY {_said(operation, bits.denied).name} to {text}"
                if bits.allowed >> operation & 1 and not allowing:
                    allowing = f"ALLOW {_said(operation, bits.granted).name} to {text}"
        return allowing or ("DefaultAllow" if self._open and not covered else "DefaultDeny")


def by_pattern(bindings: Iterable[AclBinding]) -> dict[Pattern, list[AclBinding]]:
    """Entries by their patterns."""
    found: dict[Pattern, list[AclBinding]] = {}
    for binding in bindings:
        found.setdefault(pattern_of(binding), []).append(binding)
    return found


def pattern_of(binding: AclBinding) -> Pattern:
    """The pattern of an entry."""
    return binding.resource_type, binding.pattern_type, binding.resource_name


def _arranged_names(literal: dict[str, _Principals], prefixed: dict[str, _Principals]) -> _NamesOf:
    """The names of all patterns, by principal, host and operation."""
    found: _NamesOf = {}
    for patterns, denied_at, granted_at in ((literal, 0, 1), (prefixed, 2, 3)):
        for name, principals in patterns.items():
            for principal, hosts in principals.items():
                for host, bits in hosts.items():
                    for place, operations in ((denied_at, bits.denied), (granted_at, bits.granted)):
                        for operation in _operations(operations):
                            key = principal, host, operation
                            if key not in found:
                                found[key] = _Names(set(), set(), set(), set())
                            found[key][place].add(name)
    return found


def _operations(bits: int) -> Iterator[int]:
    """The operations of some bits; all of them are ALL."""
    if bits == _EVERY:
        yield AclOperation.ALL
        return
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _is_denied(name: str, found: Sequence[_Names]) -> bool:
    """Whether an entry denies what another one allows on a name."""
    return any(name in names.denied for names in found) or _is_denied_prefix(name, found)


def _is_denied_prefix(name: str, found: Sequence[_Names]) -> bool:
    """Whether an entry on a prefix of a name, or on the name as a prefix, denies."""
    return any(
        names.denied_prefixes and any(name[:end] in names.denied_prefixes for end in range(1, len(name) + 1))
        for names in found
    )


def _said(operation: AclOperation, bits: int) -> AclOperation:
    """The operation in the entry by which another one is decided: ALL, itself, or one that implies it."""
    if bits == _EVERY:
        return AclOperation.ALL
    if bits >> operation & 1:
        return operation
    return next(each for each, implied in _IMPLIED.items() if bits >> each & 1 and implied >> operation & 1)


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


def _applying(principals: _Principals, principal: str, host: str) -> Iterator[tuple[str, str, _Bits]]:
    """`_entries_for`, with the principal and the host of each."""
    for who in (principal, WILDCARD_PRINCIPAL):
        hosts = principals.get(who, _NO_HOSTS)
        for where in (host, WILDCARD):
            if where in hosts:
                yield who, where, hosts[where]
