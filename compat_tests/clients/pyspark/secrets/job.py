"""A Spark program whose options have secrets: its queries succeed and fail, and it keeps what a user can see of them.

    python -m compat_tests.clients.pyspark.secrets.job BOOTSTRAP TOPIC FOLDER

It reads the options for clients from the standard input, as a JSON array: those that are right, those with a wrong
password, and those that cannot be parsed. In FOLDER are then the event log (`events`), a checkpoint and the pages of
Spark's user interface (`pages`); plans and errors are printed, and Spark logs everything to the standard error.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from examples.spark_orders.pipeline import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.sql.debug.maxToStringFields": "1000",
    "spark.sql.maxMetadataStringLength": "100000",  # nothing of a plan is cut off
}


def main(bootstrap: str, topic: str, folder: str) -> None:
    """Run the queries."""
    import kwire.spark

    broker = {"kafka.bootstrap.servers": bootstrap}
    right, wrong, torn = ({**broker, **each} for each in json.load(sys.stdin))
    events = Path(folder, "events")
    events.mkdir()
    settings = {**_SETTINGS, "spark.eventLog.dir": f"{events}"}
    spark = kwire.spark.session("secrets", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("DEBUG")
    queries(spark, right, topic, f"{folder}/checkpoint")
    attempt(lambda: written(spark, wrong, topic))
    attempt(lambda: read(spark, wrong, topic).count())
    attempt(lambda: streamed(spark, wrong, topic, f"{folder}/failed"))
    attempt(lambda: read(spark, torn, topic).count())
    keep_pages(spark.sparkContext, Path(folder, "pages"))
    spark.stop()


def queries(spark: SparkSession, options: dict[str, str], topic: str, checkpoint: str) -> None:
    """One of each kind, with all that Spark says of it."""
    written(spark, options, topic)
    found = read(spark, options, topic)
    found.explain("extended")
    print(found.count())
    attempt(lambda: found.select("no_such_column"))
    query = streamed(spark, options, topic, checkpoint)
    query.explain(True)
    print(query.status, query.recentProgress)


def written(spark: SparkSession, options: dict[str, str], topic: str) -> None:
    """Write ten rows."""
    rows = spark.range(10, numPartitions=1).selectExpr("cast(id as string) as value")
    rows.write.format("kwire").mode("append").options(**options, topic=topic).save()


def read(spark: SparkSession, options: dict[str, str], topic: str) -> Any:
    """A frame of the topic."""
    return spark.read.format("kwire").options(**options, subscribe=topic).load()


def streamed(spark: SparkSession, options: dict[str, str], topic: str, checkpoint: str) -> Any:
    """A query that has copied the topic."""
    rows = spark.readStream.format("kwire").options(**options, subscribe=topic, startingOffsets="earliest").load()
    rows.explain(True)
    writer = rows.select("value").writeStream.format("kwire").options(**options, topic=f"{topic}-copy")
    query = started(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True))
    query.awaitTermination()
    return query


def attempt(action: Callable[[], object]) -> None:
    """Do what fails, and print how."""
    from pyspark.errors import PySparkException

    try:
        action()
    except PySparkException as error:
        print(f"failed: {error!r}")
        traceback.print_exc()
    else:
        raise AssertionError("it did not fail")


def keep_pages(context: Any, folder: Path) -> None:
    """Keep the pages of the user interface, and what its API returns of the queries."""
    folder.mkdir()
    api = f"/api/v1/applications/{context.applicationId}"
    paths = ["/jobs/", "/stages/", "/environment/", "/SQL/", "/StreamingQuery/", f"{api}/environment", f"{api}/jobs"]
    paths += [f"{api}/sql?details=true&planDescription=true&length=1000"]
    with urlopen(context.uiWebUrl + paths[-1]) as response:
        paths += [f"/SQL/execution/?id={each['id']}" for each in json.load(response)]
    for number, path in enumerate(paths):
        with urlopen(context.uiWebUrl + path) as response:
            (folder / str(number)).write_bytes(response.read())


if __name__ == "__main__":
    main(*sys.argv[1:])
