"""Forwarding of requests that only the controller handles, from other brokers to the controller.

As in Kafka, any broker accepts CreateTopics and its like. The request is sent to the controller unchanged. If there is
no controller at the moment, or it has just changed, the request is retried until `request.timeout.ms` has passed.
Before the client gets the response, this broker's metadata has caught up with the change, so that the client's next
request to this broker sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, resolved
from kwire.base.logging import get_logger
from kwire.cluster.controller.controller import automatic_topics
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.handlers.api import Handle
    from kwire.handlers.context import RequestContext, Services

RETRY_S: Final = 0.05
CREATE_TOPICS_VERSION: Final = 7

_logger = get_logger("kwire.handlers.forwarding")


def requested_broker(context: RequestContext) -> int:
    """The broker to which the client sent the request: this one, or the one that forwarded it. (A client that uses a
    broker's client id gains nothing: it could send the request to that broker.)"""
    kind, _, number = (context.client_id or "").partition("-")
    if kind == "broker" and number.isdecimal() and int(number[:10]) in context.services.image.brokers:
        return int(number[:10])
    return context.services.broker_id


def forwarded(handle: Handle) -> Handle:
    """A handler that runs on the controller, and forwards requests on other brokers."""

    def handle_or_forward(request: Any, context: RequestContext) -> NowOrLater[Any]:
        if context.services.controller.active:
            return handle(request, context)
        return _forward(handle, request, context)

    return handle_or_forward


async def _forward(handle: Handle, request: Message, context: RequestContext) -> Any:
    services = context.services
    deadline = asyncio.get_running_loop().time() + services.config.request_timeout_ms / 1000
    while True:
        if services.controller.active:
            return await resolved(handle(request, context))
        response = await _send(services, request, context.api_version, deadline)
        if response is not None and not _is_not_controller(response):
            await services.controller.catch_up()
            return response
        if asyncio.get_running_loop().time() >= deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "There is no controller at the moment.")
        await asyncio.sleep(RETRY_S)


async def _send(services: Services, request: Message, version: int, deadline: float) -> Any | None:
    """The controller's response; None if no controller can be reached."""
    controller = services.image.controller_id
    if controller in (-1, services.broker_id):
        return None
    left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
    try:
        return await services.peers.call(controller, request, version, timeout_s=left_s)
    except PeerUnavailable:
        return None


def _is_not_controller(response: Any) -> bool:
    """Whether the response comes from a broker that is no longer the controller."""
    code = ErrorCode.NOT_CONTROLLER
    if getattr(response, "error_code", 0) == code:
        return True
    for name in ("topics", "responses", "results", "filter_results", "replica_election_results", "entries"):
        for each in getattr(response, name, None) or ():
            if getattr(each, "error_code", 0) == code:
                return True
    return False


async def auto_create(services: Services, names: Sequence[str]) -> None:
    """`Controller.auto_create`, wherever the controller is."""
    if services.controller.active:
        await services.controller.auto_create(names)
        return
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in automatic_topics(services.config, names)
        ],
        timeout_ms=services.config.request_timeout_ms,
    )
    deadline = asyncio.get_running_loop().time() + services.config.request_timeout_ms / 1000
    try:
        response = await _send(services, request, CREATE_TOPICS_VERSION, deadline)
        if response is not None:
            await services.controller.catch_up()
    except KafkaError as error:
        _logger.warning("topics cannot be created", topics=list(names), error=str(error))
