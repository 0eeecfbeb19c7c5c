"""A Spark session with Spark's own Kafka connector, whichever PySpark is installed.

The connector's artefacts on Maven Central are not complete for every release: some lack the connector itself, many the
token provider that it needs. A connector works with the later patches of its minor release, and 4.2.0 with 4.3, so
`CONNECTORS` has only those that are there wholly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTORS: Final = {(4, 0): "4.0.0", (4, 1): "4.1.1", (4, 2): "4.2.0"}
"""PySpark from that minor release on -> the connector."""
_PACKAGE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
_AVAILABLE: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""Before 4.2 sources in Python know nothing of Trigger.AvailableNow. By default Spark runs one batch in its stead: of a
query that was killed, the one that it had begun, and not what has come since."""


def connector(version: str) -> str:
    """The connector for a version of PySpark, as `spark.jars.packages` names it. ValueError before 4.0."""
    major, minor = (int(part) for part in version.split(".")[:2])
    fitting = [found for first, found in CONNECTORS.items() if first <= (major, minor)]
    if not fitting:
        raise ValueError(f"PySpark {version}: kwire.spark needs 4.0.0 or later: pip install -U pyspark")
    return f"{_PACKAGE}:{fitting[-1]}"


def connector_settings(version: str | None = None) -> dict[str, str]:
    """The settings that a session needs for ``format("kafka")`` and ``format("kwire")``, by their names in Spark.
    ``version``: of PySpark, by default the one that is installed."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    settings = {"spark.jars.packages": connector(version)}
    release = tuple(map(int, version.split(".")[:2]))
    if release >= (4, 1):
        settings[_FILTERS] = "true"
    if release < (4, 2):
        settings[_AVAILABLE] = "true"
    return settings


def session(
    name: str = "kwire", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session that knows ``format("kafka")`` and ``format("kwire")``; the one that runs, if there is one.

    ``master``: where Spark runs, by default what Spark is configured for, or all cores of this machine. ``settings``
    come last; packages that they name are added to the connector's. The first call downloads the connector. On this
    machine Spark's Python processes are of the Python that calls, unless PYSPARK_PYTHON names another.
    """
    from pyspark.sql import SparkSession

    from kwire.spark.datasource import register

    if (master or "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # read when Spark's JVM starts
    wanted = connector_settings()
    for key, value in (settings or {}).items():
        wanted[key] = f"{wanted[key]},{value}" if key == "spark.jars.packages" else value
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    spark = builder.config(map=dict(wanted)).getOrCreate()
    register(spark)
    return spark
