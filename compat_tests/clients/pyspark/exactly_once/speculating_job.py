"""A Spark job on a cluster, one task of which hangs in its first attempt; with speculation Spark runs it a second time.

    python -m compat_tests.clients.pyspark.exactly_once.speculating_job BOOTSTRAP TARGET MASTER FOLDER

It copies 40 rows by a batch query and by a streaming one, and prints how many rows the topic of the latter has then,
how many different ones, and the id of the query's run. The folder `attempts` gets a file for each attempt of the task;
`events` gets Spark's log of events, where the jobs of the batch query have the group `batch`, and those of the
streaming one the id of its run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # the first task waits for all executors
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.interval": "50ms",
}
ROWS = 40
HANGS_S = 60.0


def hanging(folder: str) -> Any:
    """A function of Spark that returns values as they are; the first attempt of task 0 takes very long, and is killed
    meanwhile."""
    from pyspark.sql.functions import udf

    def passed(value: str) -> str:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 0:
            attempts = Path(folder, "attempts")
            attempts.mkdir(exist_ok=True)
            (attempts / str(task.attemptNumber())).touch()
            if task.attemptNumber() == 0:
                time.sleep(HANGS_S)
        return value

    return udf(passed, "string")


def main(bootstrap: str, target: str, master: str, folder: str) -> None:
    import kwire.spark
    from examples.spark_orders.pipeline import started

    events = Path(folder, "events")
    events.mkdir()
    settings = {**_SETTINGS, "spark.eventLog.dir": str(events)}
    spark = kwire.spark.session("speculating", master=master, settings=settings)
    broker = {"kafka.bootstrap.servers": bootstrap}
    source = f"{target}-source"
    reading = {**broker, "subscribe": source, "startingOffsets": "earliest", "minPartitions": "4"}
    numbers = spark.range(ROWS).selectExpr("cast(id as string) as value")
    numbers.coalesce(1).write.format("kwire").mode("append").options(**broker, topic=source).save()
    spark.sparkContext.setJobGroup("batch", "a copy")
    batch = spark.read.format("kwire").options(**reading).load().select("value")
    batch.write.format("kwire").mode("append").options(**broker, topic=f"{target}-batch").save()
    stream = spark.readStream.format("kwire").options(**reading).load()
    rows = stream.selectExpr("cast(value as string) as value").repartition(4)
    query = started(
        rows.select(hanging(folder)("value").alias("value"))
        .writeStream.format("kwire")
        .options(**broker, topic=target, checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
    )
    query.awaitTermination()
    found = (
        spark.read.format("kwire").options(**broker, subscribe=target).option("kafka.isolation.level", "read_committed")
    )
    values = found.load().select("value")
    print(values.count(), values.distinct().count(), query.runId)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
