"""Forwarding of requests that only the controller handles, from other brokers to the controller.

As in Kafka, any broker accepts CreateTopics and its like. The request is sent to the controller in an Envelope, with
its header and with the client's principal and address (KIP-590): the controller decides what the client may do, this
broker does not. If there is no controller at the moment, or it has just changed, the request is retried until
`request.timeout.ms` has passed. Before the client gets the response, this broker's metadata has caught up with the
change, so that the client's next request to this broker sees it.

Brokers of kwire 0.1.0 know no Envelope: until all are replaced, requests to and from them are forwarded as they are,
and the principal is lost. That is possible only while no authorizer is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, in_turns, resolved
from kwire.base.logging import get_logger
from kwire.cluster.controller.topics import NewTopic, automatic_topics
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.protocol import encode_in_slices
from kwire.handlers.slices import SLICE_ELEMENTS, free_in_slices, in_slices, keep_encoded

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.codec.messages.create_topics_response import CreateTopicsResponse
    from kwire.coordinator.groups.streams.topology.configured import InternalTopic
    from kwire.handlers.api import Handle
    from kwire.handlers.context import RequestContext, Services

RETRY_S: Final = 0.05
CREATE_TOPICS_VERSION: Final = 7
SLICE_WARNINGS: Final = 100
"""Lines that are written before other clients get their turn: two or three milliseconds."""

_REASONS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "its principal has no CLUSTER_ACTION on the cluster (super.users, ACLs)",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "the controller cannot read the client's principal",
    ErrorCode.UNSUPPORTED_VERSION: "the controller does not know this version of the request",
}
_logger = get_logger("kwire.handlers.forwarding")


def asked_broker(context: RequestContext) -> int | None:
    """The broker that got the request from its client; None if another one did and has checked what only it can check.

    A broker of kwire 0.1.0 checks nothing. It is recognised by its client id, as long as one is registered under that
    number. (A client that uses this client id gains nothing: there is no authorizer, and it could send the request to
    that broker.)"""
    services = context.services
    if context.forwarded:
        return None
    kind, _, number = (context.client_id or "").partition("-")
    if kind == "broker" and number.isdecimal() and services.authorizer.allows_all:
        broker = services.image.brokers.get(int(number[:10]))
        if broker is not None and not broker.accepts_envelopes:
            return broker.id
    return services.broker_id


class _Answer(NamedTuple):
    """The controller's response, and its bytes if it is large."""

    response: Any
    body: bytes | None = None


def forwarded(handle: Handle, *, is_whole: bool = False) -> Handle:
    """A handler that runs on the controller, and forwards requests on other brokers. ``is_whole``: what it returns is
    the response to the client's request, so that its bytes need not be made again."""

    def handle_or_forward(request: Any, context: RequestContext) -> NowOrLater[Any]:
        if context.services.controller.active or context.forwarded:
            return handle(request, context)
        return _forward(handle, request, context, is_whole)

    return handle_or_forward


async def _forward(handle: Handle, request: Message, context: RequestContext, is_whole: bool) -> Any:
    services = context.services
    deadline = _deadline(services)
    while True:
        if services.controller.active:
            return await resolved(handle(request, context))
        answer = await _send(request, context.api_version, context, deadline)
        if answer is not None:
            response = answer.response
            await services.controller.catch_up()
            if is_whole and answer.body is not None:
                keep_encoded(context, answer.body)
            context.throttle_time_ms = getattr(response, "throttle_time_ms", 0)
            return response
        if asyncio.get_running_loop().time() >= deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "There is no controller at the moment.")
        await asyncio.sleep(RETRY_S)


def _deadline(services: Services) -> float:
    return asyncio.get_running_loop().time() + services.config.request_timeout_ms / 1000


async def _send(request: Message, version: int, context: RequestContext, deadline: float) -> _Answer | None:
    """The controller's response to a client's request; None if no controller can be reached."""
    from kwire.handlers.envelopes import envelope_of, taken_out_in_slices

    services = context.services
    controller = services.image.brokers.get(services.image.controller_id)
    if controller is None or controller.id == services.broker_id:
        return None
    if not controller.accepts_envelopes:
        _refuse_unless_open(services, controller.id)
        found = await _call(services, request, version, deadline)
        return None if found is None else _Answer(found)
    body = await in_turns(encode_in_slices(request, version, SLICE_ELEMENTS))
    envelope = envelope_of(request, version, context, body)
    response = await _call(services, envelope, 0, deadline)
    if response is None:
        return None
    if response.error_code:
        raise _refusal(ErrorCode(response.error_code), request, controller.id)
    return _Answer(*await taken_out_in_slices(response, request.API_KEY, version))


async def _call(services: Services, request: Message, version: int, deadline: float) -> Any | None:
    """The controller's response to a request of this broker; None if no controller can be reached."""
    from kwire.handlers.envelopes import comes_from_former_controller

    controller = services.image.controller_id
    if controller in (-1, services.broker_id):
        return None
    left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
    try:
        response = await services.peers.call(controller, request, version, timeout_s=left_s)
    except PeerUnavailable:
        return None
    return None if comes_from_former_controller(response) else response


def _refuse_unless_open(services: Services, controller: int) -> None:
    """UNSUPPORTED_VERSION if the client's principal must not be lost."""
    if not services.authorizer.allows_all:
        message = (
            f"Broker {controller}, the controller, is too old for a cluster with an authorizer: it must be upgraded."
        )
        _logger.error("request cannot be forwarded", controller=controller, reason=message)
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


def _refusal(code: ErrorCode, request: Message, controller: int) -> KafkaError:
    """What the client gets if the controller refuses an Envelope: as in Kafka, not the error of the Envelope, which is
    about this broker."""
    reason = _REASONS.get(code, code.name)
    api = type(request).__name__
    _logger.warning("controller refuses to handle a forwarded request", controller=controller, api=api, reason=reason)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller refuses requests of this broker: {reason}.")


async def auto_create(context: RequestContext, names: Sequence[str], *, for_client: bool = False) -> None:
    """`Controller.auto_create`, wherever the controller is. ``for_client``: the client wants the topics, and the
    controller decides whether it may create them; otherwise this broker needs them itself."""
    services = context.services
    if services.controller.active:
        await services.controller.auto_create(names)
        return

    def some(part: Sequence[str]) -> list[CreatableTopic]:
        return [creatable(topic) for topic in automatic_topics(services.config, part)]

    topics = await resolved(in_slices(names, some, SLICE_ELEMENTS))
    request = CreateTopicsRequest(topics=topics, timeout_ms=services.config.request_timeout_ms)
    deadline = _deadline(services)
    try:
        if for_client:
            answer = await _send(request, CREATE_TOPICS_VERSION, context, deadline)
            response = None if answer is None else answer.response
        else:
            response = await _call(services, request, CREATE_TOPICS_VERSION, deadline)
        if response is not None:
            await in_turns(_warn_of_refusals(response))
            free_in_slices(request, response)
            await services.controller.catch_up()
    except KafkaError as error:
        _logger.warning("topics cannot be created", topics=list(names), error=str(error))


def creatable(topic: NewTopic | InternalTopic) -> CreatableTopic:
    """A new topic as CreateTopics has it."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _warn_of_refusals(response: CreateTopicsResponse) -> Generator[None, None, None]:
    """Log which topics the controller does not create, in steps. (Another broker may have created them just before.)"""
    refused = (
        each for each in response.topics if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    )
    for count, topic in enumerate(refused):
        if count and count % SLICE_WARNINGS == 0:
            yield
        error = ErrorCode(topic.error_code).name
        _logger.warning("topic cannot be created", topic=topic.name, error=error, reason=topic.error_message)
