"""The first Spark session on a machine: it downloads the connector, and its JVM writes an archive of loaded classes.

    python -m compat_tests.clients.pyspark.first_session

Half of what a short-lived Spark does is to load classes: a session and its first query take 6.6 instead of 13.3 s of
processor time with the archive (2026-11-27). It has the classes that this program's queries need. A JVM that the
archive does not suit starts without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.downloads import downloaded
from harness.kafka_jars import cache_root, locked
from harness.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM that lives for seconds. The queries are short, too."""
_OPTIONS = "SPARK_SUBMIT_OPTS"


def prepare() -> None:
    """Have the connector downloaded and the archive written, once per machine, and let the JVMs of this process's
    Sparks use the archive. Ivy's cache does not stand two processes that fill it at once."""
    from kwire.spark.sessions import connector_settings

    archive = _archive(str(connector_settings()))
    with locked("spark-connector"):
        if not archive.exists():
            partial = archive.with_suffix(".partial")
            environment = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                _OPTIONS: f"{QUICK} -XX:ArchiveClassesAtExit={partial} -Xlog:disable",
            }
            with tempfile.TemporaryDirectory(prefix="kwire-spark-") as folder:
                command = [sys.executable, "-m", __name__]
                downloaded("Spark's Kafka connector", command, cwd=Path(folder), env=environment)
            for former in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
                former.unlink()
            partial.touch()  # a JVM that could not write it: all others go without
            partial.rename(archive)
    os.environ[_OPTIONS] = f"{QUICK} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable"


def _archive(settings: str) -> Path:
    """Where the archive is kept: one for each place of PySpark, as long as that and Java stay the same. That it exists
    says that the connector is there, too."""
    import pyspark

    java, jars = Path(shutil.which("java") or "java").resolve(), Path(pyspark.__file__).parent / "jars"
    marks = [f"{each} {each.stat().st_mtime_ns}" for each in (java, jars)]
    place, state = (hashlib.sha256(text.encode()).hexdigest()[:12] for text in (str(jars), f"{settings} {marks}"))
    return cache_root() / f"spark-classes-{place}-{state}.jsa"


def _query(spark: SparkSession, folder: Path) -> None:
    """A little of what the tests' queries do."""
    from pyspark.sql import functions as f

    numbers = spark.range(100).select("id", (f.col("id") % 7).alias("key"), f.lit('{"n": 1}').alias("value"))
    numbers.write.partitionBy("key").parquet(str(folder / "table"))
    stream = spark.readStream.schema("id long, value string, key int").parquet(str(folder / "table"))
    counted = stream.select("key", f.from_json("value", "n int").alias("n")).groupBy("key").agg(f.sum("n.n"))
    query = counted.writeStream.outputMode("complete").format("memory").queryName("counted")
    query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    spark.sql("select key, count(*) from counted group by key order by key").collect()


def main() -> int:
    """Run a session; it ends when its JVM has ended, and so has written the archive."""
    from examples.spark_orders.pipeline import spark_session

    spark = spark_session("first", spark_sql_shuffle_partitions="1")
    gateway: Any = spark.sparkContext._gateway
    with tempfile.TemporaryDirectory(dir=".") as folder:
        _query(spark, Path(folder))
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait() != 0)  # half an archive would be the end of every JVM that maps it


if __name__ == "__main__":
    sys.exit(main())
