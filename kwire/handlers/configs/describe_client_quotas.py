"""DescribeClientQuotas (API key 48): the quotas of users, client ids and addresses (KIP-546).

Behaviour:

- A filter has a name, the default or any name for each entity type. An entity matches if it has all of them; with
  ``strict``, it must have no other types. A filter without types matches all entities, or with ``strict`` none.
- INVALID_REQUEST for a filter that makes no sense: an empty or repeated entity type, an unknown kind of match, a name
  where none belongs or none where one is needed, addresses together with users or client ids. UNSUPPORTED_VERSION for
  an unknown entity type. Such a response has no list of entries.

Versions: 0; 1 flexible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kwire.codec.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.quotas.entities import ENTITY_TYPES, IP, QuotaEntity, Quotas
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

SLICE_ENTITIES: Final = 500
"""Entities that are described before other clients get their turn: a millisecond or two."""

ANY_NAME: Final = 2
MATCHES: Final = {0: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}


def operations(request: DescribeClientQuotasRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE_CONFIGS on the cluster."""
    return (Operation(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),)


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> NowOrLater[DescribeClientQuotasResponse]:
    """Select from the newest image."""
    _check_filter(request)
    entities = list(context.services.image.client_quotas.items())
    return then(in_slices(entities, partial(_entries, request), SLICE_ENTITIES), partial(_response, context))


def _response(context: RequestContext, entries: list[EntryData]) -> NowOrLater[DescribeClientQuotasResponse]:
    response = DescribeClientQuotasResponse(entries=entries)
    return encode_in_slices(context, response) if len(entries) > SLICE_ENTITIES else response


def _check_filter(request: DescribeClientQuotasRequest) -> None:
    seen: dict[str, None] = {}
    for component in request.components:
        _check(component, seen)
        seen[component.entity_type] = None
    if IP in seen and len(seen) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component.",
        )


def _check(component: ComponentData, seen: dict[str, None]) -> None:
    kind = component.entity_type
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in seen:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    match = MATCHES.get(component.match_type)
    if match is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match_type == 0 and component.match is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {match}, but set match string to null.")
    if component.match_type != 0 and component.match is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {match}, but also specified a match string.")


def _entries(request: DescribeClientQuotasRequest, entities: Sequence[tuple[QuotaEntity, Quotas]]) -> list[EntryData]:
    return [_entry(*each) for each in _matching(request, entities)]


def _matching(
    request: DescribeClientQuotasRequest, entities: Sequence[tuple[QuotaEntity, Quotas]]
) -> Iterator[tuple[QuotaEntity, Quotas]]:
    wanted = [(each.entity_type, each.match, each.match_type == ANY_NAME) for each in request.components]
    for entity, quotas in entities:
        names = entity.by_type()
        if request.strict and len(names) != len(wanted):
            continue
        if all(kind in names and (any_name or names[kind] == name) for kind, name, any_name in wanted):
            yield entity, quotas


def _entry(entity: QuotaEntity, quotas: Quotas) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )


def refuse(
    request: DescribeClientQuotasRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    """An error instead of entries."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, served=(0, 1), handle=handle, operations=operations, error_response=refuse)
