"""Some of Spark's own suites on kwire, chosen to cover every feature within a CI run; ``python -m
compat_tests.suites.spark`` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.needs import need
from compat_tests.suites.spark.suite import SparkSuite, run
from harness.processes.kerberos import missing

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]

CHOSEN = (
    "ConsumerStrategySuite",
    "KafkaContinuousSinkSuite:streaming - write to kafka",
    "KafkaDelegationTokenSuite",
    "KafkaDontFailOnDataLossSuite",
    "KafkaMicroBatchV2SourceWithConsumerSuite:assign from specific timestamps (failOnDataLoss: true)"
    "|transactional|topic deletions|topic recreation|headers|delete a topic",
    "KafkaOffsetReaderSuite",
    "KafkaRelationSuiteV2:headers|transactional|reuse same|explicit",
    "KafkaSinkBatchSuiteV2",
)
LONG = ("consumer.KafkaDataConsumerSuite",)
"""About the connector's own cache, which asks little of a broker: with every case only."""

WANTED = [*CHOSEN, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)]
IDS = [each.partition(":")[0] for each in (*CHOSEN, *LONG)]


@pytest.mark.parametrize("wanted", WANTED, ids=IDS)
def test_a_suite_ends_as_on_apache_kafka(wanted: str, tmp_path: Path) -> None:
    suite = SparkSuite(wanted)
    if suite.needs_kerberos:
        need(missing())
    assert suite.recorded(), "no record of a run on Apache Kafka"
    wrong = suite.compare("kwire", run(suite, "kwire", tmp_path))
    if wrong:  # some cases wait for a fixed time only, which is too short when the machine is busy
        print("run again:", *wrong, sep="\n", flush=True)
        wrong = suite.compare("kwire", run(suite, "kwire", tmp_path / "again"))
    assert wrong == []
