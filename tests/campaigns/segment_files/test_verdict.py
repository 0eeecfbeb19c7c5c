"""The verdict of `campaigns.segment_files`: planted faults in what was read make a difference."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from campaigns.segment_files.verdict import Ledger, Row, make_row, rising, same, same_as_one, same_but_compacted


def row(offset: int, key: bytes | None = None, value: bytes = b"v") -> Row:
    return make_row(offset, 1000 + offset, key, value, ())


def ledger(rows: Sequence[Row]) -> Ledger:
    made = Ledger()
    for each in rows:
        made.add(each)
    return made


ROWS = [row(offset) for offset in (3, 4, 6, 7)]


def test_what_a_consumer_was_given_is_right() -> None:
    assert same(ledger(ROWS), ROWS[1:3], 4, 7) is None
    assert same(ledger([]), [], 0, 9) is None
    assert rising(ROWS, 3, 8) is None


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([ROWS[0], *ROWS[2:]], "offset 6 comes where 4 was given"),
        (ROWS[:3], "offset 7 is missing"),
        ([*ROWS, row(8)], "offset 8 was given to no consumer"),
        ([*ROWS[:3], row(7, value=b"w")], "offset 7 has other bytes"),
        ([*ROWS[:3], make_row(7, 1007, None, b"v", (("h", None),))], "offset 7 has other bytes"),
        ([*ROWS[:3], make_row(7, 1008, None, b"v", ())], "offset 7 has other bytes"),
    ],
)
def test_what_is_lost_added_or_changed_is_found(rows: list[Row], wrong: str) -> None:
    assert same(ledger(ROWS), rows, 0, 9) == wrong
    assert same_as_one([ROWS[:2], ROWS], rows, 9) is not None


@pytest.mark.parametrize("rows", [[ROWS[0], ROWS[0]], ROWS[::-1], [row(2)], [row(9)]])
def test_repeated_swapped_and_foreign_rows_are_found(rows: list[Row]) -> None:
    assert rising(rows, 3, 9) is not None


def test_offsets_that_the_consumer_missed_are_not_compared() -> None:
    given = ledger([ROWS[0], *ROWS[2:]])
    assert same(given, [ROWS[0], row(4), row(5), *ROWS[2:]], 3, 9) is not None
    given.missed.append((4, 6))
    assert same(given, [ROWS[0], row(4), row(5), *ROWS[2:]], 3, 9) is None


def test_rows_of_two_lives_of_a_topic_are_found() -> None:
    first, second = [row(0), row(1), row(2)], [row(0, value=b"w"), row(1, value=b"w")]
    assert same_as_one([first, second], first[:2], 2) is None
    assert same_as_one([first, second], second, 2) is None
    assert same_as_one([first, second], [first[0], second[1]], 2) is not None


def test_of_a_compacted_log_only_what_a_later_record_replaces_may_be_missing() -> None:
    rows = [row(0, b"a"), row(1, b"b"), row(2, b"a"), row(5, b"c")]
    given = ledger(rows)
    assert same_but_compacted(given, rows, 0, 6) is None
    assert same_but_compacted(given, rows[1:], 0, 6) is None
    assert same_but_compacted(given, [rows[0], *rows[2:]], 0, 6) == "offset 1, the last of its key, is missing"
    changed = [*rows[:3], row(5, b"c", b"w")]
    assert same_but_compacted(given, changed, 0, 6) == "offset 5 is not what a consumer was given"
    assert same_but_compacted(given, [*rows, row(6, b"c")], 0, 9) == "offset 6 is not what a consumer was given"
