"""A batch query and a streaming query through Spark's own connector and through ``format("kwire")``, with a check of
what they wrote.

It imports what ``kwire[spark]`` installs and nothing else of this repository, for it runs where only that is installed:

    python tools/spark_releases/queries.py HOST:PORT FOLDER [NAME=VALUE]...     settings of Spark; prints a JSON line

With the setting ``spark.remote`` the session is one of Spark Connect.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""The queries are short: compiled code would cost more time than it saves."""
Rows = list[tuple[str, str]]


def written(spark: SparkSession, bootstrap: str, topic: str, source: str) -> Rows:
    """The keys and values of a topic, in order. ``source``: the format that reads them."""
    frame = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    rows = frame.selectExpr("cast(key as string) as key", "cast(value as string) as value").collect()
    return sorted((row.key, row.value) for row in rows)


def check(spark: SparkSession, bootstrap: str, folder: str, prefix: str) -> None:
    """Write rows with either sink, copy each topic with a streaming query, and read both. ``prefix``: of topics, which
    are made.
    AssertionError names what differs."""
    expected = sorted((f"key {number % 7}", f"value {number}") for number in range(ROWS))
    frame = spark.createDataFrame(expected, "key string, value string")
    broker = {"kafka.bootstrap.servers": bootstrap}
    for sink in ("kafka", "kwire"):
        topic, copied = f"{prefix}-{sink}", f"{prefix}-{sink}-copy"
        frame.write.format(sink).mode("append").options(**broker, topic=topic).save()
        assert written(spark, bootstrap, topic, sink) == expected, f"batch query with format({sink!r})"
        stream = spark.readStream.format(sink).options(**broker, subscribe=topic, startingOffsets="earliest")
        writer = stream.load().select("key", "value").writeStream.format(sink).options(**broker, topic=copied)
        query = writer.option("checkpointLocation", f"{folder}/{copied}").trigger(availableNow=True).start()
        query.awaitTermination()
        for source in ("kafka", "kwire"):
            assert written(spark, bootstrap, copied, source) == expected, f"streaming query with format({sink!r})"


def main(bootstrap: str, folder: str, *settings: str) -> None:
    """Check with a session of kwire.spark's own, and print what it was."""
    import kwire.spark

    given = {name: value for name, _, value in (each.partition("=") for each in settings)}
    if remote := given.get("spark.remote"):
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(remote).getOrCreate()
        kwire.spark.register(spark)
    else:
        spark = kwire.spark.session("releases", master="local[2]", settings={**SETTINGS, **given})
    check(spark, bootstrap, folder, "releases")
    print(json.dumps({"pyspark": spark.version, "python": platform.python_version()}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
