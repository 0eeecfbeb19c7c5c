"""DescribeConfigs (API key 32): the properties of topics, brokers, loggers, groups and client metrics.

Behaviour, resource by resource: all properties, or those of ``configuration_keys`` (unknown keys are left out).
``include_synonyms`` lists every source that has a value, in order of precedence; ``include_documentation`` adds a
sentence where kwire has one. Passwords, and values of unknown properties, are null.

- TOPIC: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
- BROKER: this broker by its id, or "" for the defaults of all brokers; another id: INVALID_REQUEST.
- BROKER_LOGGER: this broker's loggers and levels (KIP-412).
- CLIENT_METRICS, GROUP: any name but "" (INVALID_REQUEST); defaults where nothing is set.
- Any other type: INVALID_REQUEST.
- Many resources are described in slices.

Versions: 1 synonyms and sources (KIP-226); 2 throttled after the response (KIP-219); 3 documentation and types
(KIP-569); 4 flexible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from kwire.base import logging
from kwire.base.config import describe
from kwire.base.config.describe import ConfigEntry, ConfigSource
from kwire.base.config.resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.cluster.controller.topics import check_name
from kwire.cluster.store.keys import ConfigResource
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.authorization import require
from kwire.handlers.configs.config_changes import check_broker_id, operation_on
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation

SLICE_RESOURCES: Final = 6
"""Resources, each with all of its properties, that are described before other clients get their turn: a millisecond or
two."""


def handle(request: DescribeConfigsRequest, context: RequestContext) -> NowOrLater[DescribeConfigsResponse]:
    """Describe every resource."""
    results = in_slices(request.resources, partial(_results, request, context), SLICE_RESOURCES)
    return then(results, partial(_response, context))


def _response(context: RequestContext, results: list[DescribeConfigsResult]) -> NowOrLater[DescribeConfigsResponse]:
    response = DescribeConfigsResponse(results=results)
    return encode_in_slices(context, response) if len(results) > SLICE_RESOURCES else response


def _results(
    request: DescribeConfigsRequest, context: RequestContext, resources: Sequence[DescribeConfigsResource]
) -> list[DescribeConfigsResult]:
    return [_result(resource, request, context) for resource in resources]


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(resource, context)
    except Exception as error:
        code, message = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("describe_configs", error)
        result.error_code, result.error_message = int(code), message or ""
        return result
    wanted = set(resource.configuration_keys or ())
    result.configs = [_described(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(resource: DescribeConfigsResource, context: RequestContext) -> Iterable[ConfigEntry]:
    services, kind, name = context.services, resource.resource_type, resource.resource_name
    require(context, operation_on(kind, name, AclOperation.DESCRIBE_CONFIGS))
    if kind == TOPIC:
        check_name(name)
        if name not in services.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe.describe_topic(services.config, services.image.topic_config(name))
    if kind == BROKER and not name:
        return describe.describe_broker_defaults(services.config)
    if kind in (BROKER, BROKER_LOGGER):
        check_broker_id(name, services.broker_id)
        if kind == BROKER:
            return describe.describe_broker(services.config)
        return describe.describe_loggers(logging.levels())
    if kind not in (GROUP, CLIENT_METRICS) or not name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Resources of type {kind} with the name {name!r} have no properties."
        )
    if kind == GROUP:
        return describe.describe_group(services.config, services.image.config(ConfigResource.GROUP, name))
    return describe.describe_client_metrics(services.image.config(ConfigResource.CLIENT_METRICS, name))


def _described(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        config_type=entry.type_code,
        # Kafka leaves its default, the empty text, only where a property is a logger.
        documentation="" if entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=each.name, value=each.value, source=int(each.source)) for each in entry.synonyms
        ]
    if request.include_documentation and result.documentation is None:
        result.documentation = describe.documentation_of(entry)
    return result


def refuse(
    request: DescribeConfigsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """Every resource fails with the same error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=int(code),
                error_message=message or "",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = Api(ApiKey.DESCRIBE_CONFIGS, served=(1, 4), handle=handle, error_response=refuse, sliced=True)
