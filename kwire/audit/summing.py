"""What is known of an audit when everything is matched: by window, partition and key."""

from __future__ import annotations

import glob
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kwire.audit.rows import MISSING, PartitionRow, WindowRow

if TYPE_CHECKING:
    import duckdb

WINDOWS_MAX: Final = 60
PARTITIONS_MAX: Final = 1000
"""So many partitions or files are shown."""
_S: Final = 1000
_WIDTHS_MS: Final = tuple(
    seconds * _S
    for seconds in (
        1,
        5,
        10,
        30,
        60,
        300,
        600,
        1800,
        3600,
        7200,
        14400,
        43200,
        86400,
        7 * 86400,
        30 * 86400,
        365 * 86400,
    )
)


class Sums:
    """Counts of the rows of digests in ``folder``, and of the table ``faults``."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: str) -> None:
        self._con = con
        self._folder = folder

    def records(self) -> list[dict[int, int]]:
        """The records of each partition, for both ends."""
        return [dict(self._of_side(side, "part, count(*)", "GROUP BY part")) for side in (0, 1)]

    def defer(self, since_ms: int | None) -> int:
        """Take the records that are missing and not older than this out of the faults; how many."""
        if since_ms is None:
            return 0
        condition = f"kind = '{MISSING}' AND ts >= {since_ms}"
        (count,) = self._all(f"SELECT count(*) FROM faults WHERE {condition}")[0]
        self._con.execute(f"DELETE FROM faults WHERE {condition}")
        return int(count)

    def faults(self) -> dict[str, int]:
        """The number of faults of each kind that there is."""
        return dict(self._all("SELECT kind, count(*) FROM faults GROUP BY kind ORDER BY kind"))

    def width(self, wanted_ms: int | None) -> int:
        """The length of a window: a wanted one, or one of which there are at most `WINDOWS_MAX`."""
        if wanted_ms is not None:
            return wanted_ms
        bounds = [
            each for side in (0, 1) for each in self._of_side(side, "min(ts), max(ts)", "") if each[0] is not None
        ]
        span = max((each[1] for each in bounds), default=0) - min((each[0] for each in bounds), default=0)
        return next((each for each in _WIDTHS_MS if span / each < WINDOWS_MAX - 1), _WIDTHS_MS[-1])

    def windows(self, width_ms: int) -> list[WindowRow]:
        """What is in each window; records without a time are in none."""
        start = f"ts - ((ts % {width_ms}) + {width_ms}) % {width_ms}"
        sides = [
            dict(self._of_side(side, f"{start} AS s, count(*)", "WHERE ts IS NOT NULL GROUP BY s")) for side in (0, 1)
        ]
        faults: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for window, kind, count in self._all(
            f"SELECT {start} AS s, kind, count(*) FROM faults WHERE ts IS NOT NULL GROUP BY s, kind ORDER BY kind"
        ):
            faults[window][kind] = count
        every = sorted(sides[0].keys() | sides[1].keys() | faults.keys())
        return [
            WindowRow(each, each + width_ms, sides[0].get(each, 0), sides[1].get(each, 0), faults.get(each, {}))
            for each in every
        ]

    def partitions(self, records: list[dict[int, int]]) -> list[PartitionRow]:
        """What is in each partition; a fault is in that of the source, if its record is there."""
        faults: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for part, kind, count in self._all(
            "SELECT coalesce(part_a, part_b) AS part, kind, count(*) FROM faults GROUP BY part, kind ORDER BY kind"
        ):
            faults[part][kind] = count
        every = sorted(records[0].keys() | records[1].keys() | faults.keys())[:PARTITIONS_MAX]
        return [
            PartitionRow(each, records[0].get(each, 0), records[1].get(each, 0), faults.get(each, {})) for each in every
        ]

    def _of_side(self, side: int, what: str, rest: str) -> list[Any]:
        pattern = f"{glob.escape(self._folder)}/{side}/*/rows/*/*.parquet"
        if not glob.glob(pattern):
            return []
        files = f"{self._folder}/{side}/*/rows/*/*.parquet".replace("'", "''")
        return self._all(f"SELECT {what} FROM read_parquet('{files}', hive_partitioning = false) {rest}")

    def _all(self, query: str) -> list[Any]:
        return self._con.execute(query).fetchall()
