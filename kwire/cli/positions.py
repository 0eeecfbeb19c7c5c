"""Places in a partition as people write them: ``earliest``, ``42``, ``2026-11-23T10:00``, ``10 minutes ago``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kwire.cli.connection.cluster import Cluster
    from kwire.cli.connection.offsets import Partition

MEANINGS: Final = (
    "earliest, latest, an offset, -N (N before the end), a time (2026-11-23T10:00, @MILLISECONDS), '10 minutes ago'"
)
_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _MS["s"]),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _MS["m"]),
    **dict.fromkeys(("h", "hour", "hours"), _MS["h"]),
    **dict.fromkeys(("d", "day", "days"), _MS["d"]),
    **dict.fromkeys(("w", "week", "weeks"), _MS["w"]),
}
_AGO: Final = re.compile(r"(\d{1,12})\s*([a-z]+)\s+ago")
_OFFSET_MAX: Final = 2**63 - 1


class Kind(Enum):
    """What a position's number is."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIME = "time"


class Position(NamedTuple):
    """A place in any partition. ``number``: an offset, records before the end, or milliseconds since 1970."""

    kind: Kind
    number: int = 0


def parse_position(text: str, now_ms: int) -> Position:
    """A position. Times without a zone are local. ValueError, which says what is understood."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Position(Kind(word))
    if re.fullmatch(r"-?\d{1,19}", word) and abs(int(word)) <= _OFFSET_MAX:
        return Position(Kind.BEFORE_END, -int(word)) if word.startswith("-") else Position(Kind.OFFSET, int(word))
    if re.fullmatch(r"@\d{1,15}", word):
        return Position(Kind.TIME, int(word[1:]))
    ago = _AGO.fullmatch(word)
    if ago is not None and ago[2] in _UNITS:
        return Position(Kind.TIME, max(now_ms - int(ago[1]) * _UNITS[ago[2]], 0))
    try:
        return Position(Kind.TIME, int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a position: {MEANINGS}") from None


async def resolve(
    cluster: Cluster, positions: Mapping[Partition, Position], *, committed: bool = False
) -> dict[Partition, int]:
    """The offsets of positions, between the first and the end of each partition. A time after the last record is the
    end. ``committed``: the end is the last stable offset."""
    from kwire.cli.connection.offsets import EARLIEST, LATEST, list_offsets

    first = await list_offsets(cluster, dict.fromkeys(positions, EARLIEST))
    end = await list_offsets(cluster, dict.fromkeys(positions, LATEST), committed=committed)
    times = {partition: each.number for partition, each in positions.items() if each.kind is Kind.TIME}
    timed = await list_offsets(cluster, times) if times else {}
    found = {}
    for partition, (kind, number) in positions.items():
        low, high = first[partition].offset, end[partition].offset
        wanted = {
            Kind.EARLIEST: low,
            Kind.LATEST: high,
            Kind.OFFSET: number,
            Kind.BEFORE_END: high - number,
            Kind.TIME: timed[partition].offset if partition in timed else 0,
        }[kind]
        if kind is Kind.TIME and wanted < 0:  # no record is that late
            wanted = high
        found[partition] = min(max(wanted, low), high)
    return found
