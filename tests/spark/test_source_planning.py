from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.arrow.ranges import Partition, Range
from kwire.spark.source.planning import divided, limited, ranges, total

SPANS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(lambda pair: (min(pair), max(pair))),
    min_size=1,
)
Spans = dict[Partition, tuple[int, int]]


def split(spans: Spans) -> tuple[dict[Partition, int], dict[Partition, int]]:
    return {each: low for each, (low, _) in spans.items()}, {each: high for each, (_, high) in spans.items()}


def test_ranges_lie_between_the_positions_and_none_is_empty() -> None:
    starts, ends = {("a", 0): 5, ("a", 1): 7, ("a", 2): 3}, {("a", 0): 9, ("a", 1): 7, ("b", 0): 4, ("a", 2): 1}
    assert ranges(starts, ends) == [Range("a", 0, 5, 9)]


@given(SPANS, st.integers(1, 40), st.sampled_from([0, 1 << 18, 1 << 19]))
def test_divided_ranges_are_the_same_offsets_and_none_has_too_many(spans: Spans, least: int, most: int) -> None:
    whole = ranges(*split(spans))
    found = divided(whole, least, most)
    assert all(each.size > 0 for each in found)
    assert not most or all(each.size <= most for each in found)
    offsets = [(each.topic, each.partition, each.start, each.end) for each in found]
    joined: list[Range] = []
    for each in sorted(offsets):
        if joined and joined[-1][:2] == each[:2] and joined[-1].end == each[2]:
            joined[-1] = joined[-1]._replace(end=each[3])
        else:
            joined.append(Range(*each))
    assert joined == whole


def test_a_large_partition_is_divided_more_often_than_a_small_one() -> None:
    found = divided([Range("a", 0, 0, 900), Range("a", 1, 0, 100)], 10)
    assert [each.size for each in found] == [100] * 10
    assert divided([Range("a", 0, 0, 900)], 1) == [Range("a", 0, 0, 900)]


def test_ranges_that_stay_whole_do_not_count_for_the_others() -> None:
    """SPARK-36576."""
    found = divided([Range("a", 0, 0, 500), Range("b", 0, 0, 12000), Range("c", 0, 0, 15001)], 6)
    assert [each.size for each in found] == [500, 6000, 6000, 5000, 5000, 5001]


@given(SPANS, st.integers(1, 10**6))
def test_a_limit_is_kept_but_for_one_offset_of_each_partition(spans: Spans, at_most: int) -> None:
    starts, ends = split(spans)
    found = limited(starts, ends, at_most)
    assert found.keys() == ends.keys()
    assert all(starts[each] <= found[each] <= ends[each] for each in ends)
    assert total(starts, found) <= at_most + len(ends)
    if total(starts, ends):
        assert total(starts, found) > 0, "a query goes on"


def test_a_limit_is_shared_in_proportion() -> None:
    starts, ends = {("a", 0): 0, ("a", 1): 0, ("a", 2): 5}, {("a", 0): 900, ("a", 1): 100, ("a", 2): 5}
    assert limited(starts, ends, 100) == {("a", 0): 90, ("a", 1): 10, ("a", 2): 5}
    assert limited(starts, ends, 1000) == ends
