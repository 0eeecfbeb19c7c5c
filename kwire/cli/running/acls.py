"""Access control entries of a running cluster: DescribeAcls, CreateAcls, DeleteAcls (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.cli.connection import check
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.cli.connection.cluster import Cluster

VERSION: Final = 3


class RunningAcls:
    """The entries of a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def select(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """The entries that any of the filters selects, in alphabetical order. `CommandError`."""
        found: set[AclBinding] = set()
        for each in filters:
            response = await self._cluster.call(DescribeAclsRequest(**filter_fields(each)), max_version=VERSION)
            check(response.error_code, "access control entries", response.error_message)
            found.update(_binding(resource, acl) for resource in response.resources for acl in resource.acls)
        return sorted(found)

    async def add(self, bindings: Iterable[AclBinding]) -> list[AclBinding]:
        """Add entries; those that were not there before. `CommandError`."""
        wanted = list(dict.fromkeys(bindings))
        present = await self.select({AclFilter(*each) for each in wanted})
        creations = [
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
        response = await self._cluster.call(CreateAclsRequest(creations=creations), max_version=VERSION)
        for result in response.results:
            check(result.error_code, "access control entries", result.error_message)
        return [each for each in wanted if each not in present]

    async def remove(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Delete the entries that any of the filters selects; which they were. `CommandError`."""
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**filter_fields(each)) for each in filters])
        response = await self._cluster.call(request, max_version=VERSION)
        found: set[AclBinding] = set()
        for result in response.filter_results:
            check(result.error_code, "access control entries", result.error_message)
            for each in result.matching_acls:
                check(each.error_code, "access control entries", each.error_message)
                found.add(_binding(each, each))
        return sorted(found)


def filter_fields(chosen: AclFilter) -> dict[str, Any]:
    """A filter in DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": chosen.resource_type,
        "resource_name_filter": chosen.resource_name,
        "pattern_type_filter": chosen.pattern_type,
        "principal_filter": chosen.principal,
        "host_filter": chosen.host,
        "operation": chosen.operation,
        "permission_type": chosen.permission,
    }


def _binding(resource: Any, acl: Any) -> AclBinding:
    """An entry in a response, from the fields of its pattern of resources and its own."""
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        PermissionType(acl.permission_type),
    )
