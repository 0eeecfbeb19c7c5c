"""Requests that only the controller decides on, asked of another broker: carried there and back.

As in Kafka, any broker takes CreateTopics and its like. The request goes to the controller as it is; where there is
none for the moment, or the office has just moved on, it is tried again until `request.timeout.ms` is over. Before the
client is answered, this broker has caught up with what was decided, so that its next question here finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
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


def broker_asked(context: RequestContext) -> int:
    """The broker that a client asked: this one, or the one that carried the request here. (A client that takes a
    broker's name gets no more than if it asked that broker.)"""
    kind, _, number = (context.client_id or "").partition("-")
    if kind == "broker" and number.isdecimal() and int(number[:10]) in context.services.image.brokers:
        return int(number[:10])
    return context.services.broker_id


def forwarded(handle: Handle) -> Handle:
    """A handler that runs on the controller, wherever that is."""

    def handle_or_forward(request: Any, context: RequestContext) -> Any | Awaitable[Any]:
        if context.services.controller.active:
            return handle(request, context)
        return _forward(handle, request, context)

    return handle_or_forward


async def _forward(handle: Handle, request: Message, context: RequestContext) -> Any:
    services = context.services
    deadline = asyncio.get_running_loop().time() + services.config.request_timeout_ms / 1000
    while True:
        if services.controller.active:
            answer = handle(request, context)
            return await answer if isinstance(answer, Awaitable) else answer
        response = await _ask(services, request, context.api_version, deadline)
        if response is not None and not _refused(response):
            await services.controller.catch_up()
            return response
        if asyncio.get_running_loop().time() >= deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "There is no controller at the moment.")
        await asyncio.sleep(RETRY_S)


async def _ask(services: Services, request: Message, version: int, deadline: float) -> Any | None:
    """The controller's response; None where there is no controller to be reached."""
    controller = services.image.controller_id
    if controller in (-1, services.broker_id):
        return None
    left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
    try:
        return await services.peers.call(controller, request, version, timeout_s=left_s)
    except PeerUnavailable:
        return None


def _refused(response: Any) -> bool:
    """Whether a broker answered that is not the controller any more."""
    code = ErrorCode.NOT_CONTROLLER
    if getattr(response, "error_code", 0) == code:
        return True
    for name in ("topics", "responses", "results", "replica_election_results"):
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
        response = await _ask(services, request, CREATE_TOPICS_VERSION, deadline)
        if response is not None:
            await services.controller.catch_up()
    except KafkaError as error:
        _logger.warning("topics cannot be created", topics=list(names), error=str(error))
