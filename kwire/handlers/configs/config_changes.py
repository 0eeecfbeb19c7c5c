"""What AlterConfigs and IncrementalAlterConfigs share: checks of the resources, and the call of the controller.

A resource that is refused does not keep the others from being changed; the results are in the order of the request.
Values are validated by `kwire.base.config.resources`, against the state at the moment of the controller's change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kwire.base.config import ConfigError
from kwire.base.config.definitions import is_checked_by_broker
from kwire.base.config.resources import BROKER, CLIENT_METRICS, GROUP, TOPIC, ResourceValidator
from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.base.futures import NowOrLater, resolved, then
from kwire.cluster.controller.controller import ConfigUpdate
from kwire.cluster.controller.topics import check_name
from kwire.cluster.store.keys import ConfigResource
from kwire.handlers.api import error_of
from kwire.handlers.authorization import require
from kwire.handlers.context import RequestContext, Services
from kwire.handlers.forwarding import asked_broker
from kwire.handlers.slices import in_slices
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

SLICE_RESOURCES: Final = 500
"""Resources that are checked before other clients get their turn: two or three milliseconds."""

STORED: Final = (TOPIC, BROKER, CLIENT_METRICS, GROUP)
"""The resource types whose properties the controller stores."""

Outcome = KafkaError | None
"""Of one resource; None is success."""
Prepare = Callable[[Any], "ConfigUpdate | None"]
"""A resource of the request -> its update for the controller; None if there is nothing left to do. KafkaError refuses
it."""


Refused = dict[tuple[int, str], KafkaError]
"""What is wrong with resources, by type and name."""
Respond = Callable[[Any, "list[Outcome]"], Any]
"""A request and the outcomes of its resources -> its response."""


def operation_on(resource_type: int, name: str, operation: AclOperation) -> Operation:
    """The operation that describing or altering a resource's configuration requires."""
    if resource_type == TOPIC:
        return Operation(operation, ResourceType.TOPIC, name)
    if resource_type == GROUP:
        return Operation(operation, ResourceType.GROUP, name)
    return Operation(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def alter_all(
    resources: Sequence[Any], prepare: Prepare, *, validate_only: bool, context: RequestContext
) -> NowOrLater[list[Outcome]]:
    """Check each resource, prepare its update, and have the controller apply the updates. The outcomes are in the order
    of the resources."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    prepared = in_slices(resources, partial(_prepare_all, prepare, counts, context), SLICE_RESOURCES)
    return then(prepared, partial(_decide_all, validate_only, context))


def _prepare_all(
    prepare: Prepare, counts: Counter[tuple[int, str]], context: RequestContext, resources: Sequence[Any]
) -> list[ConfigUpdate | Outcome]:
    prepared: list[ConfigUpdate | Outcome] = []
    for resource in resources:
        try:
            _check_resource(resource, counts, context)
            prepared.append(prepare(resource))
        except Exception as error:
            prepared.append(_refused(error, context))
    return prepared


def _check_resource(resource: Any, counts: Counter[tuple[int, str]], context: RequestContext) -> None:
    resource_type, name = resource.resource_type, resource.resource_name
    if counts[resource_type, name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    require(context, operation_on(resource_type, name, AclOperation.ALTER_CONFIGS))
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A property may be named only once.")


def refuse_nulls(names: Iterable[str]) -> None:
    """INVALID_REQUEST if there are names: those of properties with a null value."""
    nulls = list(names)
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A value is needed for: {', '.join(nulls)}")


def check_stored(resource: Any) -> None:
    """KafkaError unless the controller stores properties for such a resource."""
    resource_type, name = resource.resource_type, resource.resource_name
    if resource_type not in STORED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if resource_type == TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic's configuration needs the topic's name.")
        check_name(name)


def check_broker_id(name: str, broker_id: int) -> None:
    """INVALID_REQUEST unless ``name`` is ``broker_id``, the broker that got the request: only a broker itself describes
    and changes its own properties and loggers."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "This is changed for one broker at a time: name it by its number.")
    if not (name.isascii() and name.lstrip("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A broker is named by its number, not by: {name}")
    if int(name[:20]) != broker_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id: expected {broker_id}, received {name[:20]}")


def refused_brokers(request: Any, context: RequestContext) -> Refused:
    """The resources that are properties of other brokers. The broker that got the request refuses them, before it is
    known what the client may do, as in Kafka: the controller cannot tell which broker that was."""
    refused: Refused = {}
    asked = asked_broker(context)
    if asked is None:
        return refused
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        if kind == BROKER and name:
            try:
                check_broker_id(name, asked)
            except KafkaError as error:
                refused[kind, name] = as_value(error)
    return refused


def refused_values(
    request: Any,
    change_of: Callable[[Any, Services], Callable[[Mapping[str, str]], dict[str, str]]],
    context: RequestContext,
) -> Refused:
    """What is wrong with key stores, trust stores and cordoned directories, by resource. Only the broker itself can
    tell; a request that another broker forwards has been checked there. No file is opened before the client may change
    the broker's properties (Kafka does). ``change_of``: how a resource of the request changes its properties."""
    refused: Refused = {}
    if asked_broker(context) != context.services.broker_id:
        return refused
    for resource in request.resources:
        if resource.resource_type == BROKER and is_checked_by_broker(each.name for each in resource.configs):
            try:
                require(context, operation_on(BROKER, resource.resource_name, AclOperation.ALTER_CONFIGS))
                check_broker_id(resource.resource_name, context.services.broker_id)
                current = context.services.image.config(ConfigResource.BROKER, resource.resource_name)
                context.services.config.try_dynamic(change_of(resource, context.services)(current))
            except KafkaError as error:
                refused[_key(resource)] = as_value(error)
            except ConfigError as error:
                refused[_key(resource)] = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return refused


async def alter_others(
    request: Any,
    refused: Refused,
    alter: Callable[[Any, RequestContext], Any],
    respond: Respond,
    context: RequestContext,
) -> Any:
    """The response to a request some of whose resources are refused; ``alter`` handles the others."""
    done = respond(request, [refused.get(_key(each)) for each in request.resources])
    kept = [each for each in request.resources if _key(each) not in refused]
    if kept:
        part = type(request)(resources=kept, validate_only=request.validate_only)
        response = await resolved(alter(part, context))
        results = {_key(each): each for each in response.responses}
        done.responses = [results.get(_key(each), each) for each in done.responses]
    return done


def _key(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def update_of(
    resource: Any, change: Callable[[Mapping[str, str]], dict[str, str]], context: RequestContext
) -> ConfigUpdate:
    """The controller's update for a resource of the request. It raises KafkaError for invalid properties."""
    kind, name = ConfigResource(resource.resource_type), resource.resource_name
    validate = ResourceValidator(context.services.config)

    def validated(current: Mapping[str, str]) -> dict[str, str]:
        values = change(current)
        validate(kind, name, values)
        return values

    return ConfigUpdate(kind, name, validated)


def _decide_all(
    validate_only: bool, context: RequestContext, prepared: list[ConfigUpdate | Outcome]
) -> NowOrLater[list[Outcome]]:
    """The outcomes are there at once if no resource has an update."""
    if any(isinstance(each, ConfigUpdate) for each in prepared):
        return _decide(prepared, validate_only, context)
    return [each for each in prepared if not isinstance(each, ConfigUpdate)]


async def _decide(
    prepared: list[ConfigUpdate | Outcome], validate_only: bool, context: RequestContext
) -> list[Outcome]:
    updates = [each for each in prepared if isinstance(each, ConfigUpdate)]
    outcomes: dict[tuple[ConfigResource, str], Outcome] = {}
    failure: Outcome = None
    try:
        outcomes = await context.services.controller.alter_configs(updates, validate_only=validate_only)
    except KafkaError as error:
        failure = error
    return [
        outcomes.get((each.resource, each.name), failure) if isinstance(each, ConfigUpdate) else each
        for each in prepared
    ]


def _refused(error: Exception, context: RequestContext) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    context.services.log_failure("config_changes", error)
    return KafkaError(*error_of(error))


def fields_of(outcome: Outcome) -> dict[str, Any]:
    """The error fields of a response for an outcome."""
    if outcome is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": int(outcome.code), "error_message": outcome.message}
