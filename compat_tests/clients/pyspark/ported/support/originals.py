"""Which of Spark's tests the cases here were ported from, and which have no counterpart.

The names are those that Spark 4.0.0's own run recorded (`compat_tests/suites/results/spark-*.json`). Spark runs some
suites several times, with its older and its newer interface for sources (V1, V2) and with two ways to ask for offsets;
``format("kwire")`` has one of each, so a name counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from compat_tests.suites.suite import RESULTS

MICRO_BATCH: Final = "KafkaMicroBatchSourceSuite"
RELATION: Final = "KafkaRelationSuite"
READER: Final = "KafkaOffsetReaderSuite"
RANGES: Final = "KafkaOffsetRangeCalculatorSuite"
OFFSETS: Final = "KafkaSourceOffsetSuite"
PROVIDER: Final = "KafkaSourceProviderSuite"
STRATEGY: Final = "ConsumerStrategySuite"
JSON: Final = "JsonUtilsSuite"
LIMITS: Final = "KafkaOffsetRangeLimitSuite"
CONSUMER: Final = "KafkaDataConsumerSuite"
DATA_LOSS: Final = "KafkaDontFailOnDataLossSuite"
STRESS: Final = "KafkaSourceStressSuite"
STRESS_LOSS: Final = "KafkaSourceStressForDontFailOnDataLossSuite"
SUITES: Final = (
    *(MICRO_BATCH, RELATION, READER, RANGES, OFFSETS, PROVIDER),
    *(STRATEGY, JSON, CONSUMER, DATA_LOSS, STRESS, STRESS_LOSS),
)

RUN_AS: Final = {
    MICRO_BATCH: tuple(
        f"KafkaMicroBatch{v}SourceWith{how}Suite" for v in ("V1", "V2") for how in ("Admin", "Consumer")
    ),
    RELATION: tuple(f"KafkaRelationSuite{how}{v}" for v in ("V1", "V2") for how in ("", "WithAdmin")),
}
"""A suite -> the names under which Spark runs it, if there are several."""

_INTERFACES: Final = "which of Spark's own classes its planner uses"
_FIRST_FILE: Final = (
    "Spark's source writes a file of its own into the checkpoint; an offset log has all that kwire needs"
)
_GROUPS: Final = "tasks read without a consumer group"
_METRICS: Final = "a function of Spark's own; PySpark has no interface by which a source could report metrics"
_ASYNC: Final = (
    "an option of Spark's own sink; in PySpark 4.3.0 such a query with a source in Python cannot be started again"
    " (CONCURRENT_QUERY), and why is not known yet"
)
_CACHE: Final = "Spark keeps consumers for later tasks; a task of kwire has connections of its own"
_CONTINUOUS: Final = "PySpark's interface has no continuous processing"

LEFT_OUT: Final = {
    (MICRO_BATCH, "async progress tracking"): _ASYNC,
    (MICRO_BATCH, "V1 Source is used when disabled through SQLConf"): _INTERFACES,
    (MICRO_BATCH, "V2 Source is used by default"): _INTERFACES,
    (
        MICRO_BATCH,
        "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
    ): _FIRST_FILE,
    (MICRO_BATCH, "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)"): _FIRST_FILE,
    (MICRO_BATCH, "deserialization of initial offset written by future version"): _FIRST_FILE,
    (MICRO_BATCH, "allow group.id override"): _GROUPS,
    (MICRO_BATCH, "allow group.id prefix"): _GROUPS,
    (MICRO_BATCH, "test custom metrics - corner cases"): _METRICS,
    (RELATION, "V1 Source is used when set through SQLConf"): _INTERFACES,
    (RELATION, "V2 Source is used when set through SQLConf"): _INTERFACES,
    (
        RANGES,
        "with minPartition = 3: N TopicPartitions to N offset ranges with executors",
    ): "PySpark's interface has no preferred locations",
    (PROVIDER, "continuous mode - options should be handled as case-insensitive"): _CONTINUOUS,
    (STRATEGY, "createAdmin must create admin properly"): "there is no Java client",
    (
        STRATEGY,
        "AssignStrategy.assignedTopicPartitions must skip invalid partitions",
    ): "kwire refuses a partition that does not exist, and names it",
    (CONSUMER, "new KafkaDataConsumer instance in case of Task retry"): _CACHE,
    (CONSUMER, "new KafkaDataConsumer instance in case of token renewal"): _CACHE,
    (CONSUMER, "same KafkaDataConsumer instance in case of same token"): _CACHE,
    (DATA_LOSS, "failOnDataLoss=false should not return duplicated records: continuous processing"): _CONTINUOUS,
}
"""(suite, name) -> why there is no case."""

UNRECORDED: Final = {
    (MICRO_BATCH, "subscribing topics from topic-level offsets"),
    (MICRO_BATCH, "topic-level offsets tolerate a new topic matching subscribePattern after the start"),
    (MICRO_BATCH, "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger"),
    (MICRO_BATCH, "SPARK-56243: malformed record timestamp throws detailed error"),
    (LIMITS, "resolving topic-level offsets against the assigned partitions"),
    (LIMITS, "resolving a topic-level offset of a topic without assigned partitions fails"),
    (RELATION, "topic-partition for start offset and end offset must match"),
    (RELATION, "unresolved start offset greater than end offset"),
    (RELATION, "resolved start offset greater than end offset (without latest)"),
    (RELATION, "resolved start offset greater than end offset (with latest)"),
    (JSON, "parsing specificOffsets"),
    (JSON, "parsing specificOffsets with topic-level earliest/latest"),
    (JSON, "parsing specificOffsets mixing topic-level and partition-level values"),
    (JSON, "parsing specificOffsets rejects a topic given in both forms"),
    (JSON, "parsing specificOffsets rejects malformed json"),
}
"""Tests that are in Spark's repository, but not in 4.0.0, with which the names were recorded."""


def original(suite: str, *names: str) -> pytest.MarkDecorator:
    """The marker of a case: the suite, and the names of its tests that the case was ported from."""
    return pytest.mark.original(suite, *names)


def recorded(suite: str) -> Iterator[tuple[str, str]]:
    """The tests that Spark ran of a suite: the name under which it ran the suite, and the test's name."""
    for name in RUN_AS.get(suite, (suite,)):
        for test in json.loads((RESULTS / f"spark-{name}.json").read_text())["tests"]:
            yield name, test
