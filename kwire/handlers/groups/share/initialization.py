"""New partitions of a share group are made known to the share coordinators, in the background.

The group coordinator has recorded that they are being initialised. Here the share coordinators are asked, and the
outcome is recorded: partitions that are initialised are assigned with the next heartbeat, others are tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.base.logging import get_logger
from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest

if TYPE_CHECKING:
    from kwire.coordinator.groups.share.states import Partitions
    from kwire.handlers.context import Services

_logger = get_logger(__name__)


def initialize(services: Services, request: InitializeShareGroupStateRequest) -> None:
    """Send a request to the share coordinators without waiting for the response."""
    services.groups.run_in_background(_initialize(services, request), f"initialize {request.group_id}")


async def _initialize(services: Services, request: InitializeShareGroupStateRequest) -> None:
    failed = {topic.topic_id: {each.partition for each in topic.partitions} for topic in request.topics}
    known: dict[bytes, set[int]] = {}
    reason = ""
    try:
        response = await services.share_persister().initialize(request)
        for result in response.results:
            for partition in result.partitions:
                if partition.error_code == ErrorCode.NONE:
                    known.setdefault(result.topic_id, set()).add(partition.partition)
                    failed.get(result.topic_id, set()).discard(partition.partition)
                else:
                    reason = ErrorCode(partition.error_code).name
    except KafkaError as error:
        reason = error.code.name
    failed = {topic_id: partitions for topic_id, partitions in failed.items() if partitions}
    if failed:
        _logger.warning("partitions of a share group cannot be initialised", group=request.group_id, reason=reason)
    await _record(services, request.group_id, known, failed)


async def _record(services: Services, group_id: str, known: Partitions, failed: Partitions) -> None:
    try:
        await resolved(services.groups.share_partitions_initialized(group_id, known, failed))
    except KafkaError as error:  # another broker coordinates the group now, and will find that they are lacking
        _logger.info("a share group has moved", group=group_id, reason=error.code.name)
