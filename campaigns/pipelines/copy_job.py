"""The Spark job that `campaigns.pipelines.exactly_once` kills: it copies a topic to another with ``format("kwire")``.

    python -m campaigns.pipelines.copy_job BOOTSTRAP SOURCE TARGET FOLDER MASTER TASKS PER_TRIGGER

Its rows fall to TASKS tasks in no certain order, so a batch that is made again by a run with other TASKS is divided in
another way. It prints the sum of the source's offsets that are behind it after each batch, and runs until it is killed.
"""

from __future__ import annotations

import sys

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "3",
    "spark.task.maxFailures": "50",  # each death of an executor fails its tasks
    "spark.executor.maxNumFailures": "10000",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "true",  # and some tasks run twice
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "50ms",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(bootstrap: str, source: str, target: str, folder: str, master: str, tasks: str, per_trigger: str) -> None:
    """Copy until the end."""
    import kwire.spark
    from examples.spark_orders.pipeline import started

    settings = {**_SETTINGS, "spark.local.dir": f"{folder}/local"}
    spark = kwire.spark.session("exactly once", master=master, settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    broker = {"kafka.bootstrap.servers": bootstrap}
    reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": per_trigger}
    rows = spark.readStream.format("kwire").options(**broker, **reading).load().select("key", "value")
    query = started(
        rows.repartition(int(tasks))
        .writeStream.format("kwire")
        .options(**broker, topic=target, sinkId="exactly-once", checkpointLocation=f"{folder}/checkpoint")
        .trigger(processingTime="100 milliseconds")
    )
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
