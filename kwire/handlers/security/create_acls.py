"""CreateAcls (API key 30): add access control entries.

Behaviour:

- SECURITY_DISABLED without an authorizer.
- There is one result per entry, in the order of the request. An entry that is there already is no error.
- INVALID_REQUEST for a name of the cluster other than ``kafka-cluster``, an empty name, a code without a meaning, a
  principal without a colon, and (other than in Kafka) an entry of more than `ENTRY_BYTES_MAX` bytes. Hosts are not
  checked.
- POLICY_VIOLATION for all entries if more than 10,000 are new.
- UNKNOWN_SERVER_ERROR for all entries if one has a code that only filters may have (ANY, MATCH), as in Kafka; the
  connection is closed if one has the code 0 (UNKNOWN).

Versions: 1 types of patterns (KIP-290); 2 flexible; 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.handlers.security.acl_fields import SLICE_ENTRIES, check_codes, known, require_authorizer
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

ENTRY_BYTES_MAX: Final = 16 * 1024
"""Name, principal and host together, so that values in the metadata store stay small."""

_ONLY_IN_FILTERS: Final = {
    "resource_type": (ResourceType.ANY,),
    "resource_pattern_type": (PatternType.ANY, PatternType.MATCH),
    "operation": (AclOperation.ANY,),
    "permission_type": (PermissionType.ANY,),
}


def operations(request: CreateAclsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Have the controller add the entries that are valid."""
    only_in_filters = await resolved(in_slices(request.creations, _only_in_filters, SLICE_ENTRIES))
    require_authorizer(context, "No Authorizer is configured.")
    if only_in_filters:
        return refuse(request, context.api_version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    read = await resolved(in_slices(request.creations, _read, SLICE_ENTRIES))
    await context.services.controller.acls.create([each for each in read if isinstance(each, AclBinding)])
    response = CreateAclsResponse(results=await resolved(in_slices(read, _results, SLICE_ENTRIES)))
    return await encode_in_slices(context, response) if len(read) > SLICE_ENTRIES else response


def _only_in_filters(creations: Sequence[AclCreation]) -> list[AclCreation]:
    """The entries with a code that only filters may have. `CloseConnection` if UNKNOWN was sent."""
    for each in creations:
        check_codes(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    return [each for each in creations if any(getattr(each, name) in codes for name, codes in _ONLY_IN_FILTERS.items())]


def _read(creations: Sequence[AclCreation]) -> list[AclBinding | KafkaError]:
    """The entries, or why they cannot be added."""
    read: list[AclBinding | KafkaError] = []
    for each in creations:
        try:
            read.append(read_entry(each))
        except KafkaError as error:
            read.append(error)
    return read


def _results(read: Sequence[AclBinding | KafkaError]) -> list[AclCreationResult]:
    return [
        AclCreationResult(error_code=each.code, error_message=each.message)
        if isinstance(each, KafkaError)
        else AclCreationResult()
        for each in read
    ]


def read_entry(fields: AclCreation) -> AclBinding:
    """The entry in a request. INVALID_REQUEST."""
    name = fields.resource_name
    binding = AclBinding(
        known(ResourceType, fields.resource_type),
        name,
        known(PatternType, fields.resource_pattern_type),
        fields.principal,
        fields.host,
        known(AclOperation, fields.operation),
        known(PermissionType, fields.permission_type),
    )
    check(binding)
    return binding


def check(binding: AclBinding) -> None:
    """INVALID_REQUEST for an entry that cannot be added."""
    if reason := _why_invalid(binding):
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _why_invalid(binding: AclBinding) -> str | None:
    """Kafka's first objection to an entry."""
    name, principal = binding.resource_name, binding.principal
    if binding.resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    codes = (
        ("resourceType", binding.resource_type),
        ("patternType", binding.pattern_type),
        ("operation", binding.operation),
        ("permissionType", binding.permission),
    )
    for what, code in codes:
        if code.name == "UNKNOWN":
            return f"Invalid {what} UNKNOWN"
    if ":" not in principal:
        return (
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from the"
            " principal name)"
        )
    if len(f"{name}{principal}{binding.host}".encode()) > ENTRY_BYTES_MAX:
        return f"The ACL is longer than {ENTRY_BYTES_MAX} bytes"
    return None


def refuse(request: CreateAclsRequest, version: int, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    """The same error for each entry."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )


API = Api(
    ApiKey.CREATE_ACLS,
    served=(1, 3),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
    sliced=True,
)
