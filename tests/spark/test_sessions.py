from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kwire.spark.datasource import KwireDataSource, register
from kwire.spark.sessions import connector, connector_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


@pytest.mark.parametrize(
    ("pyspark", "found"),
    [
        ("4.0.0", "4.0.0"),
        ("4.0.5", "4.0.0"),
        ("4.1.0", "4.1.1"),
        ("4.1.4", "4.1.1"),
        ("4.2.1", "4.2.0"),
        ("4.3.0", "4.2.0"),
    ],
)
def test_each_pyspark_has_the_newest_connector_that_is_there_wholly(pyspark: str, found: str) -> None:
    assert connector(pyspark) == f"{PACKAGE}:{found}"


def test_a_pyspark_without_python_data_sources_is_refused() -> None:
    with pytest.raises(ValueError, match=r"PySpark 3\.5\.9: kwire\.spark needs 4\.0\.0 or later"):
        connector("3.5.9")


def test_filters_are_pushed_down_where_spark_can() -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    assert name not in connector_settings("4.0.0")
    assert connector_settings("4.1.0")[name] == "true"


def test_available_now_does_not_end_with_the_batch_that_a_killed_query_had_begun() -> None:
    name = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    assert connector_settings("4.1.2")[name] == "true"
    assert name not in connector_settings("4.2.0")


def test_the_settings_are_printed_for_spark_submit_and_for_its_defaults() -> None:
    command = [sys.executable, "-m", "kwire.spark", "--version", "4.1.1"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == [
        f"--conf spark.jars.packages={PACKAGE}:4.1.1",
        "--conf spark.sql.python.filterPushdown.enabled=true",
        "--conf spark.sql.streaming.triggerAvailableNowWrapper.enabled=true",
    ]
    lines = subprocess.run([*command, "--properties"], capture_output=True, text=True, check=True).stdout
    assert lines.startswith(f"spark.jars.packages {PACKAGE}:4.1.1\n")
    ended = subprocess.run([*command[:-1], "3.5.1"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "PySpark 3.5.1: kwire.spark needs 4.0.0 or later\n")


@pytest.mark.parametrize(("before", "after"), [("(?i)url", "(?i)url|"), ("", "")])
def test_private_keys_are_hidden_beside_what_is_hidden_already(before: str, after: str) -> None:
    """Spark itself hides options whose name or value has password, secret or token in it."""
    name = "spark.sql.redaction.options.regex"
    registered: list[type] = []
    conf = SimpleNamespace(values={name: before})
    conf.get, conf.set = conf.values.get, conf.values.__setitem__
    spark = SimpleNamespace(conf=conf, dataSource=SimpleNamespace(register=registered.append))
    for _ in range(2):
        register(cast("SparkSession", spark))
    assert registered == [KwireDataSource] * 2
    assert conf.values[name].startswith(after)
    for key in ("kafka.ssl.keystore.key", "kafka.sasl.jaas.config"):
        assert re.search(conf.values[name], key)
    assert not re.search(conf.values[name], "kafka.ssl.keystore.type")
    assert conf.values[name].count("keystore") == 1


def test_importing_the_package_loads_none_of_its_libraries() -> None:
    program = "import sys, kwire.spark; print(sorted({'pyspark', 'py4j', 'pyarrow'} & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
