"""IncrementalAlterConfigs (API key 44): set, delete, append to and subtract from single properties (KIP-339).

Behaviour, for each resource by itself:

- TOPIC, BROKER ("" for all brokers), CLIENT_METRICS, GROUP: the controller reads and changes the current properties in
  one step, so that two clients do not undo each other's changes. Unknown topic: UNKNOWN_TOPIC_OR_PARTITION. Wrong value
  or unknown name: INVALID_CONFIG; for a broker, INVALID_REQUEST, also for what cannot change while it runs.
- Key stores and trust stores of a listener are tried by the broker whose they are, and read again also when nothing but
  their files has changed. Another broker refuses them: INVALID_REQUEST.
- APPEND and SUBTRACT are for lists only, otherwise INVALID_CONFIG; if nothing is set they start from the default.
  Appending an existing entry and subtracting a missing one change nothing.
- BROKER_LOGGER: the level of a logger of this broker. It is not forwarded to the controller and does not survive a
  restart (KIP-412). DELETE lets the logger inherit its level; the root logger cannot inherit one (INVALID_REQUEST).
- A resource or a property named twice, a null value, an unknown resource type: INVALID_REQUEST.
- ``validate_only`` gives the same response and changes nothing.

Versions: 0; 1 flexible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kwire.base import logging
from kwire.base.config.resources import BROKER, BROKER_LOGGER, TOPIC, config_type, default_text
from kwire.base.config.values import split_list
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, resolved, then
from kwire.cluster.controller.controller import ConfigUpdate
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.configs import config_changes
from kwire.handlers.configs.config_changes import Outcome, fields_of
from kwire.handlers.context import RequestContext, Services
from kwire.handlers.forwarding import forwarded

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> NowOrLater[IncrementalAlterConfigsResponse]:
    """Change every resource that passes the checks: loggers here, stored properties on the controller."""
    refused = config_changes.refused_brokers(request, context)
    refused |= config_changes.refused_values(request, _change_of, context)
    if refused:
        return config_changes.alter_others(request, refused, handle, _response, context)
    loggers = [each for each in request.resources if each.resource_type == BROKER_LOGGER]
    if not loggers:
        return _forwarded(request, context)  # type: ignore[no-any-return]
    if context.services.controller.active or len(loggers) == len(request.resources):
        return _alter(request, context)
    return _alter_both(request, loggers, context)


async def _alter_both(
    request: IncrementalAlterConfigsRequest, loggers: list[AlterConfigsResource], context: RequestContext
) -> IncrementalAlterConfigsResponse:
    results: dict[tuple[int, str], AlterConfigsResourceResponse] = {}
    kept = [each for each in request.resources if each.resource_type != BROKER_LOGGER]
    for part, alter in ((kept, _forwarded), (loggers, _alter)):
        part_request = IncrementalAlterConfigsRequest(resources=part, validate_only=request.validate_only)
        response = await resolved(alter(part_request, context))
        results.update({(each.resource_type, each.resource_name): each for each in response.responses})
    found = [results[each.resource_type, each.resource_name] for each in request.resources]
    return IncrementalAlterConfigsResponse(responses=found)


def _alter(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> NowOrLater[IncrementalAlterConfigsResponse]:
    def prepare(resource: AlterConfigsResource) -> ConfigUpdate | None:
        return _prepare(resource, request.validate_only, context)

    outcomes = config_changes.alter_all(
        request.resources, prepare, validate_only=request.validate_only, context=context
    )
    return then(outcomes, partial(_response, request))


_forwarded: Final[Callable[[IncrementalAlterConfigsRequest, RequestContext], Any]] = forwarded(_alter)


def _response(request: IncrementalAlterConfigsRequest, outcomes: list[Outcome]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, **fields_of(outcome)
            )
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )


def _prepare(resource: AlterConfigsResource, validate_only: bool, context: RequestContext) -> ConfigUpdate | None:
    config_changes.refuse_nulls(
        config.name for config in resource.configs if config.value is None and config.config_operation != DELETE
    )
    if resource.resource_type == BROKER_LOGGER:
        config_changes.check_broker_id(resource.resource_name, context.services.broker_id)
        _change_levels(resource.configs, validate_only)
        return None
    config_changes.check_stored(resource)
    return config_changes.update_of(resource, _change_of(resource, context.services), context)


def _change_of(resource: AlterConfigsResource, services: Services) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """The change of a resource's current properties into the new ones."""

    def change(current: Mapping[str, str]) -> dict[str, str]:
        values = dict(current)
        if resource.resource_type == BROKER and not resource.resource_name:
            values = {**services.config.dynamic_default_minimum(), **values}
        for config in resource.configs:
            _apply(config, resource.resource_type, values, services)
        return values

    return change


def _apply(config: AlterableConfig, resource_type: int, values: dict[str, str], services: Services) -> None:
    operation, name, text = config.config_operation, config.name, config.value or ""
    if operation == SET:
        values[name] = text
    elif operation == DELETE:
        values.pop(name, None)
    elif operation in (APPEND, SUBTRACT):
        entries = _list_now(resource_type, name, values, services)
        given = split_list(text.strip()) or ("",)
        if operation == APPEND:
            entries += [entry for entry in given if entry not in entries]
        else:
            entries = [entry for entry in entries if entry not in given]
        values[name] = ",".join(entries)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}: there is no operation {operation}")


def _list_now(resource_type: int, name: str, values: Mapping[str, str], services: Services) -> list[str]:
    if resource_type not in (TOPIC, BROKER) or config_type(resource_type, name) != "LIST":
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is no list that can be appended to or subtracted from.")
    if name in values:
        return list(split_list(values[name]))
    return list(default_text(services.config, resource_type, name))


def _change_levels(configs: list[AlterableConfig], validate_only: bool) -> None:
    for config in configs:
        _check_level(config)
    if validate_only:
        return
    for config in configs:
        if config.config_operation == DELETE:
            logging.unset_level(config.name)
        else:
            logging.set_level(config.name, str(config.value))


def _check_level(config: Any) -> None:
    if config.config_operation not in (SET, DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A logger's level is no list: it can be set or deleted.")
    if not logging.is_known(config.name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"There is no logger {config.name}.")
    if config.config_operation == DELETE:
        if config.name == logging.ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The root logger must have a level.")
    elif config.value not in logging.LEVELS:
        allowed = ", ".join(sorted(logging.LEVELS))
        message = f"{config.value} is no log level for {config.name}: allowed are {allowed}."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def refuse(
    request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Every resource fails with the same error."""
    return _response(request, [KafkaError(code, message)] * len(request.resources))


API = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    served=(0, 1),
    handle=handle,
    error_response=refuse,
    forwards_parts=True,
    sliced=True,
)
