"""What the page changes in groups: committed offsets, and whether there is a group at all."""

from __future__ import annotations

import time
from typing import Any

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.groups.deletion import delete_group as delete_by_id
from kwire.cli.groups.deletion import delete_group_offsets
from kwire.cli.groups.seeking import SeekRow, sought
from kwire.cli.positions import parse_position
from kwire.console.calls import Call
from kwire.console.failures import bad_request


async def seek(cluster: Cluster, call: Call) -> list[SeekRow]:
    """Where a group would go on at position ``to``; with ``execute`` that is committed. `CommandError`, `Refusal`."""
    try:
        to = parse_position(call.field("to", str), time.time_ns() // 1_000_000)
    except ValueError as error:
        raise bad_request(f"to: {error}") from None
    return await sought(cluster, call.path["group"], _topics(call), to, execute=call.executes)


async def delete_group(cluster: Cluster, call: Call) -> dict[str, str]:
    """Delete a group without members. `CommandError`."""
    name = call.path["group"]
    check(await delete_by_id(cluster, name), f"group {name}")
    return {"group": name}


async def delete_offsets(cluster: Cluster, call: Call) -> list[dict[str, Any]]:
    """Delete what a group has committed in topics. `CommandError`, `Refusal`."""
    name, topics = call.path["group"], _topics(call)
    if not topics:
        raise bad_request("the field topics names no topic")
    deleted = await delete_group_offsets(cluster, name, topics)
    for topic, index, code in deleted:
        check(code, f"group {name}, {topic}-{index}")
    return [{"topic": topic, "partition": index} for topic, index, _ in sorted(deleted)]


def _topics(call: Call) -> list[tuple[str, list[int]]]:
    """``topics``: names, or objects with ``topic`` and ``partitions``. `Refusal`."""
    found = []
    for each in call.field("topics", list, []):
        name, partitions = (each, []) if isinstance(each, str) else _topic(each)
        found.append((name, partitions))
    return found


def _topic(content: Any) -> tuple[str, list[int]]:
    if isinstance(content, dict) and isinstance(content.get("topic"), str):
        partitions = content.get("partitions", [])
        if isinstance(partitions, list) and all(isinstance(each, int) and 0 <= each < 2**31 for each in partitions):
            return content["topic"], partitions
    raise bad_request("topics: neither names, nor objects with topic and partitions")
