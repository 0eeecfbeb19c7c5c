"""Access control entries in the metadata store: their keys and values, and their part of the image.

The key of an entry is a digest of what it says: the same entry cannot be stored twice, whoever adds it. The image
imports this module when the store has such keys. What lives elsewhere: which entries may be added
(`kwire.cluster.controller.acls`), how they decide (`kwire.security.acls.index`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.cluster.store import keys
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

Acls = dict[str, AclBinding]
"""Entries by key."""


def acl_key(binding: AclBinding) -> str:
    """The key of an entry."""
    return keys.digest_key(keys.ACLS, *binding)


def pack_acl(binding: AclBinding) -> bytes:
    """The value of an entry."""
    return keys.pack(
        type=int(binding.resource_type),
        name=binding.resource_name,
        pattern=int(binding.pattern_type),
        principal=binding.principal,
        host=binding.host,
        operation=int(binding.operation),
        permission=int(binding.permission),
    )


def unpack_acl(key: str, value: bytes) -> AclBinding:
    """The inverse of `pack_acl`. `StoreFormatError`."""
    fields = keys.unpack(key, value)
    return AclBinding(
        ResourceType(fields["type"]),
        fields["name"],
        PatternType(fields["pattern"]),
        fields["principal"],
        fields["host"],
        AclOperation(fields["operation"]),
        PermissionType(fields["permission"]),
    )


def changed_acls(present: Acls, changes: Iterable[tuple[str, bytes | None]]) -> Acls:
    """The entries after changes of their keys (None: deleted)."""
    after = dict(present)
    for key, value in changes:
        if value is None:
            after.pop(key, None)
        else:
            after[key] = unpack_acl(key, value)
    return after
