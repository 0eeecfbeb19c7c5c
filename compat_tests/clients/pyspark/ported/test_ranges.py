"""In how many ranges offsets are read."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from compat_tests.clients.pyspark.ported.support.originals import RANGES, original
from kwire.arrow.ranges import Range
from kwire.spark.source.batch_reader import parts_of
from kwire.spark.source.options import SourceOptions
from kwire.spark.source.planning import ranges

pytestmark = pytest.mark.quick

Spans = list[tuple[int, int]]
"""Start and end of the ranges of topics t1, t2, …"""
Parts = list[tuple[int, ...]]
"""The bounds of the parts of each topic; empty for a topic that is not read."""

CASES: Final[list[tuple[str, dict[str, int], Spans, Parts]]] = [
    ("with no minPartition: N TopicPartitions to N offset ranges", {}, [(1, 2)], [(1, 2)]),
    ("with no minPartition: empty ranges ignored", {}, [(1, 2), (1, 1)], [(1, 2), ()]),
    (
        "with minPartition = 3: N TopicPartitions to N offset ranges",
        {"minPartitions": 3},
        [(1, 2), (1, 2), (1, 2)],
        [(1, 2), (1, 2), (1, 2)],
    ),
    (
        "with minPartition = 4: 1 TopicPartition to N offset ranges",
        {"minPartitions": 4},
        [(1, 5)],
        [(1, 2, 3, 4, 5)],
    ),
    (
        "with minPartition = 4: N skewed TopicPartitions to M offset ranges",
        {"minPartitions": 4},
        [(1, 5), (1, 21)],
        [(1, 5), (1, 7, 14, 21)],
    ),
    (
        "with minPartition = 4: SPARK-30656: ignore empty ranges and split the rest",
        {"minPartitions": 4},
        [(1, 1), (1, 21)],
        [(), (1, 6, 11, 16, 21)],
    ),
    (
        "with minPartition = 4: SPARK-30656: N very skewed TopicPartitions to M offset ranges",
        {"minPartitions": 4},
        [(1, 2), (1, 1001)],
        [(1, 2), (1, 334, 667, 1001)],
    ),
    (
        "with minPartition = 1: SPARK-30656: minPartitions less than the length of topic partitions",
        {"minPartitions": 1},
        [(1, 5), (1, 21)],
        [(1, 5), (1, 21)],
    ),
    (
        "with minPartition = 3: range inexact multiple of minPartitions",
        {"minPartitions": 3},
        [(1, 11)],
        [(1, 4, 7, 11)],
    ),
    (
        "with minPartition = 4: empty ranges ignored",
        {"minPartitions": 4},
        [(1, 5), (1, 21), (1, 1)],
        [(1, 5), (1, 7, 14, 21), ()],
    ),
    (
        "with minPartition = 6: SPARK-28489: never drop offsets",
        {"minPartitions": 6},
        [(0, 10), (0, 10), (0, 1)],
        [(0, 3, 6, 10), (0, 3, 6, 10), (0, 1)],
    ),
    (
        "with minPartition = 9: SPARK-36576: 0 small unsplit ranges and 3 large split ranges",
        {"minPartitions": 9},
        [(0, 10000), (0, 15000), (0, 20000)],
        [(0, 5000, 10000), (0, 5000, 10000, 15000), (0, 5000, 10000, 15000, 20000)],
    ),
    (
        "with minPartition = 6: SPARK-36576: 1 small unsplit range and 2 large split ranges",
        {"minPartitions": 6},
        [(0, 500), (0, 12000), (0, 15001)],
        [(0, 500), (0, 6000, 12000), (0, 5000, 10000, 15001)],
    ),
    (
        "with minPartition = 6: SPARK-36576: 2 small unsplit ranges and 1 large split range",
        {"minPartitions": 6},
        [(0, 1), (0, 1), (0, 10000)],
        [(0, 1), (0, 1), (0, 2500, 5000, 7500, 10000)],
    ),
    (
        "with maxRecordsPerPartition = 4: SPARK-49259: 1 TopicPartition to N offset ranges",
        {"maxRecordsPerPartition": 4},
        [(1, 5), (1, 2), (1, 6)],
        [(1, 5), (1, 2), (1, 3, 6)],
    ),
    (
        "with maxRecordsPerPartition = 20: SPARK-49259: N TopicPartition to N offset ranges",
        {"maxRecordsPerPartition": 20},
        [(1, 40), (1, 50), (1, 60)],
        [(1, 20, 40), (1, 17, 33, 50), (1, 20, 40, 60)],
    ),
    (
        "with minPartitions = 1 and maxRecordsPerPartition = 20: SPARK-49259: 1 TopicPartition with low minPartitions"
        " value",
        {"minPartitions": 1, "maxRecordsPerPartition": 20},
        [(1, 40)],
        [(1, 20, 40)],
    ),
    (
        "with minPartitions = 4 and maxRecordsPerPartition = 20: SPARK-49259: 1 TopicPartition with high minPartitions"
        " value",
        {"minPartitions": 4, "maxRecordsPerPartition": 20},
        [(1, 40)],
        [(1, 10, 20, 30, 40)],
    ),
]


@pytest.mark.parametrize(
    ("options", "spans", "expected"),
    [pytest.param(*case, marks=original(RANGES, name), id=name) for name, *case in CASES],
)
def test_ranges(options: dict[str, int], spans: Spans, expected: Parts) -> None:
    given = {
        "kafka.bootstrap.servers": "nowhere:1",
        "subscribe": "t",
        **{key: str(each) for key, each in options.items()},
    }
    topics = [f"t{number}" for number in range(1, len(spans) + 1)]
    starts = {(topic, 1): low for topic, (low, _) in zip(topics, spans, strict=True)}
    ends = {(topic, 1): high for topic, (_, high) in zip(topics, spans, strict=True)}
    found = parts_of(ranges(starts, ends), SourceOptions.parse(given, streaming=True))
    assert found == [
        Range(topic, 1, low, high)
        for topic, bounds in zip(topics, expected, strict=True)
        for low, high in pairwise(bounds)
    ]
