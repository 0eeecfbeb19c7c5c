from __future__ import annotations

from kwire.arrow.rows import to_arrow
from kwire.cli.records.columns import Columns


def columns(first: int, times: list[int]) -> Columns:
    offsets = range(first, first + len(times))
    values = [b"%d" % offset for offset in offsets]
    return Columns("t", 3, offsets, times, [None] * len(times), values, {}, offsets[-1] + 1)


def test_batches_with_both_types_of_timestamps_keep_theirs() -> None:
    """The type of a topic's timestamps can be changed (message.timestamp.type)."""
    first, second = columns(5, [1, -2]), columns(9, [3])
    table = to_arrow([first, second], {7: 0, 10: 1}, headers=False)
    assert table.column("timestampType").to_pylist() == [0, 0, 1]
    assert table.column("offset").to_pylist() == [5, 6, 9]
    assert [each.timestamp() * 1000 for each in table.column("timestamp").to_pylist()] == [1, -2, 3]
    assert table.column("partition").to_pylist() == [3, 3, 3]
