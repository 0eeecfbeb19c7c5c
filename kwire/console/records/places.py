"""Where a request begins and ends to read: partitions of a topic that have a leader, positions, offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.connection.offsets import LATEST, Partition, list_offsets
from kwire.cli.positions import Position, parse_position, resolve
from kwire.console.calls import Call
from kwire.console.failures import bad_request, unknown


class Places(NamedTuple):
    """What to read. ``offline``: wanted partitions without a leader, which are left out."""

    starts: dict[Partition, int]
    ends: dict[Partition, int]
    offline: list[int]


async def topic_metadata(cluster: Cluster, name: str) -> Any:
    """A topic in a Metadata response. `CommandError` if there is none."""
    [topic] = (await cluster.metadata([name])).topics
    check(topic.error_code, f"topic {name}")
    return topic


def position(call: Call, name: str, default: str) -> Position:
    """A position of the query. `Refusal`."""
    try:
        return parse_position(call.query.get(name) or default, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise bad_request(f"{name}: {error}") from None


def is_committed(call: Call) -> bool:
    """Whether records of open and aborted transactions are left out. `Refusal`."""
    text = call.query.get("isolation") or "read_uncommitted"
    if text not in ("read_committed", "read_uncommitted"):
        raise bad_request(f"isolation={text}: neither read_committed nor read_uncommitted")
    return text == "read_committed"


async def places(cluster: Cluster, call: Call, default: str) -> Places:
    """Partitions (``partitions``, ``partition``), first offsets (``offsets``, otherwise ``from``) and ends (``ends``,
    otherwise ``to``, otherwise those of now) that the query names. `CommandError`, `Refusal`."""
    name = call.path["topic"]
    topic = await topic_metadata(cluster, name)
    led = {each.partition_index: each.leader_id >= 0 for each in topic.partitions}
    resumed, ended = _offsets(call, "offsets"), _offsets(call, "ends")
    wanted = list(resumed or ended) or _indexes(call) or sorted(led)
    for index in wanted:
        if index not in led:
            raise unknown("partition", f"topic {name} has no partition {index}")
    here = [(name, index) for index in wanted if led[index]]
    offline = [index for index in wanted if not led[index]]
    committed = is_committed(call)
    first = position(call, "from", default)
    positions = {each: _given(resumed, each[1]) or first for each in here}
    starts = await resolve(cluster, positions, committed=committed)
    if call.query.get("to"):
        ends = await resolve(cluster, dict.fromkeys(here, position(call, "to", "latest")), committed=committed)
    else:
        found = await list_offsets(cluster, dict.fromkeys(here, LATEST), committed=committed)
        ends = {each: min(found[each].offset, ended.get(each[1], found[each].offset)) for each in here}
    return Places(starts, ends, offline)


def _given(resumed: Mapping[int, int], index: int) -> Position | None:
    return parse_position(str(resumed[index]), 0) if index in resumed else None


def _indexes(call: Call) -> list[int]:
    text = call.query.get("partitions") or call.query.get("partition") or ""
    words = [word for word in text.split(",") if word]
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise bad_request(f"partitions={text}: not numbers of partitions with commas between them")
    return sorted({int(word) for word in words})


def _offsets(call: Call, name: str) -> dict[int, int]:
    """``0:120,3:7``: offsets by partition. `Refusal`."""
    text = call.query.get(name, "")
    found = {}
    for pair in filter(None, text.split(",")):
        index, colon, offset = pair.partition(":")
        if not (colon and index.isdecimal() and offset.isdecimal() and len(index) < 10 and len(offset) < 19):
            raise bad_request(f"{name}={text}: not PARTITION:OFFSET with commas between them")
        found[int(index)] = int(offset)
    return found
