from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.sql.topics.pipeline import read_ahead


def test_items_keep_their_order_and_errors_their_place() -> None:
    def items() -> Iterator[int]:
        yield from range(100)
        raise ValueError("behind them")

    taken = read_ahead(items())
    assert [next(taken) for _ in range(100)] == list(range(100))
    with pytest.raises(ValueError, match="behind them"):
        next(taken)


def test_closing_ends_the_thread_and_what_it_reads() -> None:
    closed = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    items = read_ahead(endless())
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    assert closed == [True]
