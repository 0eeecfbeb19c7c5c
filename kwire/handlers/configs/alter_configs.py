"""AlterConfigs (API key 33): replace all properties of a resource (superseded by IncrementalAlterConfigs).

Behaviour: properties that the request does not name are unset. Resources are TOPIC, BROKER ("" for all brokers),
CLIENT_METRICS and GROUP. The errors are those of IncrementalAlterConfigs, except that BROKER_LOGGER is an unknown type
(INVALID_REQUEST). Unlike in Kafka, key stores and trust stores cannot be changed: only the broker itself can try them,
which it does for IncrementalAlterConfigs.

Versions: 0; 1 throttled after the response (KIP-219); 2 flexible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kwire.base.config.definitions import has_stores
from kwire.base.config.resources import BROKER
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.cluster.controller.controller import ConfigUpdate
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from kwire.codec.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.configs import config_changes
from kwire.handlers.configs.config_changes import Outcome, fields_of
from kwire.handlers.context import RequestContext, Services
from kwire.handlers.forwarding import forwarded


def handle(request: AlterConfigsRequest, context: RequestContext) -> NowOrLater[AlterConfigsResponse]:
    """Replace the properties of every resource that passes the checks, on the controller."""
    refused = config_changes.refused_brokers(request, context)
    if refused := refused | config_changes.refused_values(request, _replacement, context):
        return config_changes.alter_others(request, refused, _forwarded, _response, context)
    return _forwarded(request, context)  # type: ignore[no-any-return]


def _replacement(resource: AlterConfigsResource, services: Services) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """What the resource's properties become. KafkaError."""
    config_changes.refuse_nulls(config.name for config in resource.configs if config.value is None)
    values = {config.name: config.value or "" for config in resource.configs}

    def replace(current: Mapping[str, str]) -> dict[str, str]:
        if resource.resource_type == BROKER and _stores(current) != _stores(values):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Key stores are changed by IncrementalAlterConfigs only.")
        return values

    return replace


def _alter(request: AlterConfigsRequest, context: RequestContext) -> NowOrLater[AlterConfigsResponse]:

    def prepare(resource: AlterConfigsResource) -> ConfigUpdate:
        change = _replacement(resource, context.services)
        config_changes.check_stored(resource)
        return config_changes.update_of(resource, change, context)

    outcomes = config_changes.alter_all(
        request.resources, prepare, validate_only=request.validate_only, context=context
    )
    return then(outcomes, partial(_response, request))


_forwarded: Final[Callable[[AlterConfigsRequest, RequestContext], Any]] = forwarded(_alter)


def _stores(configs: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in configs.items() if has_stores([name])}


def _response(request: AlterConfigsRequest, outcomes: list[Outcome]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, **fields_of(outcome)
            )
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )


def refuse(request: AlterConfigsRequest, version: int, code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    """Every resource fails with the same error."""
    return _response(request, [KafkaError(code, message)] * len(request.resources))


API = Api(ApiKey.ALTER_CONFIGS, served=(0, 2), handle=handle, error_response=refuse, forwards_parts=True, sliced=True)
