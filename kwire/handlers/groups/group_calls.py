"""What the handlers of group APIs share: who calls, answers that may be futures, and which topics are there.

What the coordinator does is in `kwire.coordinator`; here requests are only taken apart and put together again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.base.errors import KafkaError
from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.coordinator.runtime.machine import Caller
from kwire.handlers.context import AclOperation, Operation, RequestContext, ResourceType

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage

T = TypeVar("T")
R = TypeVar("R")


def caller_of(context: RequestContext) -> Caller:
    """The client as a coordinator remembers it."""
    return Caller(context.client_id or "", context.client_host, context.api_version)


def offers_consumer_groups(context: RequestContext) -> bool:
    """Whether the cluster has finalised what KIP-848's groups need."""
    return context.services.image.features.get(GROUP_VERSION, 0) >= 1


def group_operation(operation: AclOperation, group_id: str) -> Operation:
    """What is asked of the principal on a group."""
    return Operation(operation, ResourceType.GROUP, group_id)


def then(answer: T | Awaitable[T], step: Callable[[T], R]) -> R | Awaitable[R]:
    """Go on with an answer: at once, or when it is there."""
    if inspect.isawaitable(answer):
        return _later(answer, step)
    return step(answer)


async def _later(answer: Awaitable[T], step: Callable[[T], R]) -> R:
    return step(await answer)


def each(
    items: Iterable[T], operation: Callable[[T], R | Awaitable[R]], refused: Callable[[T, KafkaError], R]
) -> list[R] | Awaitable[list[R]]:
    """Do something for each of many, each with its own error (``refused`` makes its answer); answers in order."""
    asked = list(items)
    answers: list[Any] = []
    waits = False
    for item in asked:
        try:
            answer = operation(item)
        except KafkaError as error:
            answer = refused(item, error)
        waits = waits or inspect.isawaitable(answer)
        answers.append(answer)
    return _all(asked, answers, refused) if waits else answers


async def _all(asked: list[T], answers: list[Any], refused: Callable[[T, KafkaError], R]) -> list[R]:
    futures = [answer for answer in answers if inspect.isawaitable(answer)]
    results = iter(await asyncio.gather(*futures, return_exceptions=True))
    done: list[R] = []
    for item, answer in zip(asked, answers, strict=True):
        result = next(results) if inspect.isawaitable(answer) else answer
        if isinstance(result, KafkaError):
            result = refused(item, result)
        elif isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


def has_partition(image: ClusterImage, topic: str, partition: int) -> bool:
    """Whether there is such a partition in the cluster."""
    return image.partition(topic, partition) is not None


def may(context: RequestContext, operation: AclOperation, topic: str) -> bool:
    """Whether the principal may do something on a topic."""
    authorizer = context.services.authorizer
    return authorizer.allows_all or authorizer.authorize(context, Operation(operation, ResourceType.TOPIC, topic))
