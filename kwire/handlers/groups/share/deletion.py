"""A share group is deleted: first its states, which the share coordinators keep, then the group itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode
from kwire.base.futures import resolved

if TYPE_CHECKING:
    from kwire.handlers.context import Services


async def delete_share_group(services: Services, group_id: str) -> ErrorCode:
    """The error of the deletion, or NONE. If a share coordinator cannot forget a partition, the group stays. Raises
    KafkaError."""
    request = await resolved(services.groups.begin_share_deletion(group_id))
    if request.topics:
        response = await services.share_persister().delete(request)
        for result in response.results:
            for partition in result.partitions:
                if partition.error_code != ErrorCode.NONE:
                    return ErrorCode(partition.error_code)
    return await resolved(services.groups.delete_group(group_id))
