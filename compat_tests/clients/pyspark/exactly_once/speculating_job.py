"""A Spark job one task of which hangs in its first attempt; with speculation Spark runs it a second time.

    python -m compat_tests.clients.pyspark.exactly_once.speculating_job BOOTSTRAP TARGET MASTER FOLDER

It writes 40 rows by a streaming query, and prints how many rows the topic has then, and how many different ones. The
folder `attempts` gets a file for each attempt of the task.
"""

from __future__ import annotations

import sys
from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
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

    spark = kwire.spark.session("speculating", master=master, settings=_SETTINGS)
    broker = {"kafka.bootstrap.servers": bootstrap}
    source = f"{target}-source"
    numbers = spark.range(ROWS).selectExpr("cast(id as string) as value")
    numbers.coalesce(1).write.format("kwire").mode("append").options(**broker, topic=source).save()
    stream = spark.readStream.format("kwire").options(**broker, subscribe=source, startingOffsets="earliest").load()
    rows = stream.selectExpr("cast(value as string) as value").repartition(4)
    query = (
        rows.select(hanging(folder)("value").alias("value"))
        .writeStream.format("kwire")
        .options(**broker, topic=target, checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = (
        spark.read.format("kwire").options(**broker, subscribe=target).option("kafka.isolation.level", "read_committed")
    )
    values = found.load().select("value")
    print(values.count(), values.distinct().count())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
