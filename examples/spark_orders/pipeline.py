"""The Spark job: orders from a topic, joined with customers, to Parquet and as running totals to another topic.

    python -m examples.spark_orders.pipeline --bootstrap localhost:9092 --directory /tmp/orders --count 1000000

Three structured streaming queries with a checkpoint each, which read with ``format("kwire")``: `table` appends every
order with its region to Parquet, `enriched` writes the same to a topic, exactly once, and `totals` keeps orders and
amounts per hour and region and writes each new state to a topic under its key: the last record of a key is its total
(a restart may write a state twice, never a wrong one). The last is Spark's own sink, because Spark has no update mode
for sinks in Python.
Killed at any moment and started again, it goes on from its checkpoints. It prints one JSON line of progress a second,
ends when ``--count`` orders went through all queries, and prints what it then reads back from Parquet.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TABLE = "orders.parquet"
"""The folder of the Parquet files, in the working directory."""
BUSY = "Python worker failed to connect back"
"""What Spark says when a Python process of its own has not started within ten seconds."""
ATTEMPTS = 10

SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
"""A local Spark that is small enough for two cores."""


def spark_session(name: str, **settings: str) -> SparkSession:
    """A small local Spark with its Kafka connector. ``settings`` have _ for the points in Spark's names."""
    import kwire.spark

    given = {key.replace("_", "."): value for key, value in settings.items()}
    spark = kwire.spark.session(name, master="local[2]", settings={**SMALL, **given})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_orders(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """The stream of orders as columns, the newest schema of `orders.Order`."""
    from pyspark.sql import functions as f

    schema = "order_id long, customer_id int, amount_cents long, time_ms long"
    return (
        spark.readStream.format("kwire")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.per_trigger)
        .option("failOnDataLoss", "true")
        .load()
        .select(f.from_json(f.col("value").cast("string"), schema).alias("o"))
        .select("o.*")
        .withColumn("time", f.timestamp_millis(f.col("time_ms")))
    )


def read_customers(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """The customers topic, whole, as a table."""
    from pyspark.sql import functions as f

    return (
        spark.read.format("kwire")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.customers)
        .load()
        .select(f.from_json(f.col("value").cast("string"), "customer_id int, region string").alias("c"))
        .select("c.*")
        .dropDuplicates(["customer_id"])
    )


def start_queries(spark: SparkSession, options: argparse.Namespace) -> list[StreamingQuery]:
    """Start the queries, from their checkpoints if there are any."""
    from pyspark.sql import functions as f

    enriched = read_orders(spark, options).join(f.broadcast(read_customers(spark, options)), "customer_id")
    table = (
        enriched.writeStream.queryName("table")
        .format("parquet")
        .option("path", f"{options.directory}/{TABLE}")
        .option("checkpointLocation", f"{options.directory}/checkpoints/table")
    )
    values = f.struct("order_id", "customer_id", "region", "amount_cents", "time_ms")
    copied = enriched.select(f.col("customer_id").cast("string").alias("key"), f.to_json(values).alias("value"))
    totals = enriched.groupBy(f.window("time", "1 hour"), "region").agg(
        f.count("*").alias("orders"), f.sum("amount_cents").alias("amount_cents")
    )
    window_ms = f.unix_millis(f.col("window.start"))
    states = totals.select(
        f.concat_ws("|", window_ms.cast("string"), f.col("region")).alias("key"),
        f.to_json(f.struct("orders", "amount_cents")).alias("value"),
    )
    return [
        started(table),
        write(copied.writeStream.queryName("enriched").format("kwire"), "enriched", options.enriched, options),
        write(
            states.writeStream.queryName("totals").format("kafka").outputMode("update"),
            "totals",
            options.totals,
            options,
        ),
    ]


def write(writer: DataStreamWriter, name: str, topic: str, options: argparse.Namespace) -> StreamingQuery:
    """Start a query that writes keys and values to a topic."""
    return started(
        writer.option("kafka.bootstrap.servers", options.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", f"{options.directory}/checkpoints/{name}")
    )


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query and wait until it has its source. If the machine is too busy to start the source's Python process
    in time, the query is started again."""
    for _ in range(ATTEMPTS):
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.05)
        if query.exception() is None or BUSY not in str(query.exception()):
            break
        print(f"query {query.name}: {BUSY}; starting it again", file=sys.stderr)
    return query


def processed(query: StreamingQuery) -> int:
    """How many orders a query has put behind it, from the end offsets of its last batch (beside the topic's id)."""
    progress: Any = query.lastProgress
    if not progress or not progress["sources"][0]["endOffset"]:
        return 0
    offsets = progress["sources"][0]["endOffset"]
    if isinstance(offsets, str):
        offsets = json.loads(offsets)
    return sum(end for partitions in offsets.values() for number, end in partitions.items() if number.isdecimal())


def run(options: argparse.Namespace) -> None:
    """Start the queries, report until they are through, read the result back."""
    spark = spark_session("kwire orders", spark_local_dir=f"{options.directory}/local")  # a killed Spark leaves things
    queries = start_queries(spark, options)
    say({"event": "started"})
    while True:
        for query in queries:
            if query.exception() is not None:
                raise SystemExit(f"query {query.name} failed: {query.exception()}")
        done = min(processed(query) for query in queries)
        say({"event": "progress", "orders": done})
        if done >= options.count:
            break
        time.sleep(1)
    for query in queries:
        query.stop()
    say({"event": "result", **read_back(spark, options)})
    spark.stop()


def read_back(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """What Parquet holds: rows, distinct orders, and totals by hour and region."""
    from pyspark.sql import functions as f

    table = spark.read.parquet(f"{options.directory}/{TABLE}")
    rows = (
        table.groupBy((f.floor(f.col("time_ms") / 3_600_000) * 3_600_000).alias("window_ms"), "region")
        .agg(f.count("*").alias("orders"), f.sum("amount_cents").alias("amount_cents"))
        .collect()
    )
    return {
        "rows": table.count(),
        "distinct": table.select("order_id").distinct().count(),
        "totals": {f"{row.window_ms}|{row.region}": [row.orders, row.amount_cents] for row in rows},
    }


def say(event: dict[str, Any]) -> None:
    """One JSON line on standard output."""
    print(json.dumps(event), flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="python -m examples.spark_orders.pipeline", description="The order pipeline.")
    result.add_argument("--bootstrap", default="localhost:9092")
    result.add_argument("--orders", default="orders", help="topic of orders")
    result.add_argument("--customers", default="customers", help="topic of customers")
    result.add_argument("--enriched", default="orders-enriched", help="topic that orders with regions go to")
    result.add_argument("--totals", default="order-totals", help="topic that the totals go to")
    result.add_argument("--directory", required=True, help="where Parquet and the checkpoints go")
    result.add_argument("--count", type=int, required=True, help="end after this many orders")
    result.add_argument("--per-trigger", type=int, default=100_000, help="most orders in one micro-batch")
    return result


if __name__ == "__main__":
    run(parser().parse_args())
    sys.exit(0)
