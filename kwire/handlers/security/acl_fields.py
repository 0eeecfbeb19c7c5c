"""What DescribeAcls, CreateAcls and DeleteAcls have in common: reading entries and filters, and the lack of an
authorizer."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol, TypeVar

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.api import CloseConnection
from kwire.handlers.context import RequestContext
from kwire.security.acls.bindings import AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

E = TypeVar("E", bound=IntEnum)

SLICE_ENTRIES: Final = 250
"""Entries that are read or described before other clients get their turn: one or two milliseconds."""

NOT_SENT: Final = 0
"""UNKNOWN, which clients never send on purpose: Kafka does not read such a request."""


class FilterFields(Protocol):
    """A filter in a request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def known(kind: type[E], code: int) -> E:
    """The meaning of a code; UNKNOWN if there is none."""
    try:
        return kind(code)
    except ValueError:
        return kind(NOT_SENT)


def read_filter(fields: FilterFields) -> AclFilter:
    """The filter in a request; codes without a meaning are UNKNOWN. `CloseConnection` if UNKNOWN was sent."""
    check_codes(fields.resource_type_filter, fields.pattern_type_filter, fields.operation, fields.permission_type)
    return AclFilter(
        known(ResourceType, fields.resource_type_filter),
        fields.resource_name_filter,
        known(PatternType, fields.pattern_type_filter),
        fields.principal_filter,
        fields.host_filter,
        known(AclOperation, fields.operation),
        known(PermissionType, fields.permission_type),
    )


def check_codes(*codes: int) -> None:
    """Close the connection if UNKNOWN was sent, as Kafka does."""
    if NOT_SENT in codes:
        raise CloseConnection("an ACL with UNKNOWN in it")


def require_authorizer(context: RequestContext, message: str) -> None:
    """SECURITY_DISABLED without an authorizer."""
    if context.services.authorizer.allows_all:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)
