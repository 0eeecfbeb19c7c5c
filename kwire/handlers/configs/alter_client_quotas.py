"""AlterClientQuotas (API key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Behaviour:

- There is one result per entity, in the order of the request. Entities are altered independently of each other; a
  removal of what is not there is no error.
- INVALID_REQUEST for an entity without names, with an unknown type, an empty name or both an address and others, for
  what is no address (Apache Kafka takes the name of a host as well), and for a limit with a key that the entity cannot
  have, that is not greater than 0, too large, or a fraction where the key takes integers. If an entity has several
  faults, the error is the one that Kafka finds first.
- An entity that is in the request twice gets an error, although the first alteration is made; with the same key twice,
  nothing is altered.
- POLICY_VIOLATION for all entities if more than 10,000 limits would change.

Versions: 0; 1 flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Sized
from typing import Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.base.futures import resolved
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kwire.codec.messages.alter_client_quotas_request import EntryData as RequestEntry
from kwire.codec.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from kwire.codec.protocol import ApiKey
from kwire.coordinator.runtime.java_hash import hash_map_order
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.quotas.entities import QuotaEntity
from kwire.quotas.rules import Changes, check_quotas
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

SLICE_ENTITIES: Final = 150
"""Entities that are examined before other clients get their turn: about a millisecond."""

Names = dict[str, str | None]


class _Outcome(NamedTuple):
    """What becomes of an entity."""

    names: Names
    error: KafkaError | None


def operations(request: AlterClientQuotasRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER_CONFIGS on the cluster."""
    return (Operation(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),)


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    """Have the controller alter the quotas that are valid."""
    outcomes: dict[QuotaEntity, _Outcome] = {}
    accepted: dict[QuotaEntity, Changes] = {}
    for count, entry in enumerate(request.entries):
        if count and count % SLICE_ENTITIES == 0:
            await asyncio.sleep(0)
        _examine(entry, outcomes, accepted)
    await context.services.controller.client_quotas.alter(accepted, validate_only=request.validate_only)
    response = AlterClientQuotasResponse(
        entries=await resolved(in_slices(list(outcomes.values()), _results, SLICE_ENTITIES))
    )
    if len(outcomes) > SLICE_ENTITIES:
        await encode_in_slices(context, response)
    return response


def _examine(entry: RequestEntry, outcomes: dict[QuotaEntity, _Outcome], accepted: dict[QuotaEntity, Changes]) -> None:
    """Enter what becomes of an entity, and its changes if they are valid."""
    names = _names(entry)
    entity = QuotaEntity.of(names)
    changes = {op.key: None if op.remove else op.value for op in entry.ops}
    if entity in outcomes or len(changes) < len(entry.ops):
        outcomes[entity] = _Outcome(names, _duplicate(names))
        return
    try:
        check_quotas(names, {key: changes[key] for key in hash_map_order(changes, _capacity(changes))})
        accepted[entity] = changes
        outcomes[entity] = _Outcome(names, None)
    except KafkaError as error:
        outcomes[entity] = _Outcome(names, as_value(error))


def _names(entry: RequestEntry) -> Names:
    """The names by type, in the order of Java's map of them."""
    names = {each.entity_type: each.entity_name for each in entry.entity}
    return {kind: names[kind] for kind in hash_map_order(names, _capacity(entry.entity))}


def _capacity(items: Sized) -> int:
    """That of a map which Java makes for so many items."""
    return 1 << max(len(items) - 1, 0).bit_length()


def _duplicate(names: Names) -> KafkaError:
    """Also for a key that is there twice: the message names the entity only."""
    text = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in names.items())
    message = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{text}}})"
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _results(outcomes: Sequence[_Outcome]) -> list[EntryData]:
    return [_result(each) for each in outcomes]


def _result(outcome: _Outcome) -> EntryData:
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in outcome.names.items()]
    if outcome.error is None:
        return EntryData(error_message=None, entity=entity)
    return EntryData(error_code=outcome.error.code, error_message=outcome.error.message, entity=entity)


def refuse(
    request: AlterClientQuotasRequest, version: int, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """The same error for each entry of the request."""
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=code,
                error_message=message,
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


API = Api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    served=(0, 1),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
    sliced=True,
)
