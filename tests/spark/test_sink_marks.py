from __future__ import annotations

import pytest

from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.marks import Mark, is_written

LAST = Mark("query-a", "run-1", 7, 100, 1234)


def written(new: Mark, last: Mark | None = LAST, *, skips: bool = False, others: dict[str, Mark] | None = None) -> bool:
    return is_written(new, last, others or {}, "orders", skips_changed=skips)


def test_the_first_batch_of_a_sink_is_written() -> None:
    assert not written(LAST, None)


def test_the_next_batch_is_written_also_when_some_without_tasks_lie_between() -> None:
    assert not written(LAST._replace(batch=8))
    assert not written(LAST._replace(batch=11, run="run-2"))


def test_a_batch_that_comes_again_is_skipped() -> None:
    assert written(LAST)
    assert written(LAST._replace(run="run-2"))


def test_an_old_copy_of_a_checkpoint_is_refused() -> None:
    with pytest.raises(SinkError, match=r"batch 6 of query query-a comes after batch 7 .* an old copy"):
        written(LAST._replace(batch=6, run="run-2"))


def test_a_batch_that_comes_again_with_other_rows_is_refused() -> None:
    for changed in (LAST._replace(rows=99), LAST._replace(digest=1)):
        with pytest.raises(SinkError, match=r"batch 7 was written to sink 'orders' with 100 rows and comes again"):
            written(changed)
        assert written(changed, skips=True)


def test_a_query_with_the_name_of_another_is_refused() -> None:
    with pytest.raises(SinkError, match=r"sink 'orders' belongs to query query-a.* the checkpoint was deleted, or two"):
        written(Mark("query-b", "run-3", 0, 1, 1))


def test_a_copied_checkpoint_is_refused_by_the_name_of_its_first_sink() -> None:
    with pytest.raises(SinkError, match=r"has written batch 7 as sink '/a', and now comes as 'orders'"):
        written(LAST._replace(batch=8), None, others={"/a": LAST, "/b": LAST._replace(query="query-b")})


def test_a_mark_is_read_as_it_was_written_and_other_text_is_none() -> None:
    assert Mark.parse(LAST.text()) == LAST
    for text in ("", "null", "{}", "[1]", '{"query": "a"}', "\0"):
        assert Mark.parse(text) is None
