from __future__ import annotations

import subprocess
import sys

import pytest

from kwire.spark.sessions import connector, connector_settings

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


def test_the_settings_are_printed_for_spark_submit_and_for_its_defaults() -> None:
    command = [sys.executable, "-m", "kwire.spark", "--version", "4.1.1"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == [
        f"--conf spark.jars.packages={PACKAGE}:4.1.1",
        "--conf spark.sql.python.filterPushdown.enabled=true",
    ]
    lines = subprocess.run([*command, "--properties"], capture_output=True, text=True, check=True).stdout
    assert lines.startswith(f"spark.jars.packages {PACKAGE}:4.1.1\n")
    ended = subprocess.run([*command[:-1], "3.5.1"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "PySpark 3.5.1: kwire.spark needs 4.0.0 or later\n")


def test_importing_the_package_loads_none_of_its_libraries() -> None:
    program = "import sys, kwire.spark; print(sorted({'pyspark', 'py4j', 'pyarrow'} & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
