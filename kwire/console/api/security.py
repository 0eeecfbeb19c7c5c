"""Access control entries, users and quotas."""

from __future__ import annotations

from enum import IntEnum

from kwire.base.doors import Doors
from kwire.cli.acl import AclRow
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.quota import QuotaRow, quota_rows
from kwire.cli.running.acls import filter_fields
from kwire.cli.running.quotas import RunningQuotas
from kwire.cli.running.users import RunningUsers
from kwire.cli.user import UserRow
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.console.calls import Call
from kwire.security.acls.bindings import AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType


def _word(kind: type[IntEnum], number: int) -> str:
    """A number's name; the number if it has none here."""
    try:
        return kind(number).name.lower().replace("_", "-")
    except ValueError:
        return str(number)


async def acls(cluster: Cluster, call: Call) -> list[AclRow]:
    """All entries. `CommandError`; SECURITY_DISABLED if there is no authorizer."""
    response = await cluster.call(DescribeAclsRequest(**filter_fields(AclFilter())))
    check(response.error_code, "access control entries", response.error_message)
    return sorted(
        AclRow(
            acl.principal,
            acl.host,
            _word(PermissionType, acl.permission_type),
            _word(AclOperation, acl.operation),
            _word(ResourceType, resource.resource_type),
            _word(PatternType, resource.pattern_type),
            resource.resource_name,
        )
        for resource in response.resources
        for acl in resource.acls
    )


async def users(cluster: Cluster, call: Call) -> list[UserRow]:
    """The users who log in with SCRAM. `CommandError`."""
    found = await RunningUsers(cluster, Doors().random.randbytes).all()
    return [UserRow(each.name, each.mechanism.mechanism_name, each.iterations) for each in found]


async def quotas(cluster: Cluster, call: Call) -> list[QuotaRow]:
    """The quotas of clients. `CommandError`."""
    found = await RunningQuotas(cluster).select({})
    return sorted(quota_rows(found), key=lambda each: tuple(word or "" for word in each[:4]))
