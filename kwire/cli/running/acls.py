"""Access control entries of a running cluster: DescribeAcls, CreateAcls, DeleteAcls (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cli.running.client import check
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.cli.running.client import ClusterClient

VERSION: Final = 3


class RunningAcls:
    """The entries of a running cluster."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def select(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """The entries that any of the filters selects, in alphabetical order. `ClusterError`."""
        found: set[AclBinding] = set()
        for each in filters:
            request = DescribeAclsRequest(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            response = await self._client.call(request, VERSION)
            check(response.error_code, response.error_message)
            for resource in response.resources:
                for acl in resource.acls:
                    found.add(
                        AclBinding(
                            ResourceType(resource.resource_type),
                            resource.resource_name,
                            PatternType(resource.pattern_type),
                            acl.principal,
                            acl.host,
                            AclOperation(acl.operation),
                            PermissionType(acl.permission_type),
                        )
                    )
        return sorted(found)

    async def add(self, bindings: Iterable[AclBinding]) -> list[AclBinding]:
        """Add entries; those that were not there before. `ClusterError`."""
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
        response = await self._client.call(CreateAclsRequest(creations=creations), VERSION)
        for result in response.results:
            check(result.error_code, result.error_message)
        return [each for each in wanted if each not in present]

    async def remove(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Delete the entries that any of the filters selects; which they were. `ClusterError`."""
        wanted = [
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
        response = await self._client.call(DeleteAclsRequest(filters=wanted), VERSION)
        found: set[AclBinding] = set()
        for result in response.filter_results:
            check(result.error_code, result.error_message)
            for each in result.matching_acls:
                check(each.error_code, each.error_message)
                found.add(
                    AclBinding(
                        ResourceType(each.resource_type),
                        each.resource_name,
                        PatternType(each.pattern_type),
                        each.principal,
                        each.host,
                        AclOperation(each.operation),
                        PermissionType(each.permission_type),
                    )
                )
        return sorted(found)
