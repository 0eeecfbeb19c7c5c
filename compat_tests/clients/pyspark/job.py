"""A Spark job that tests kill: it copies the committed records of a topic to another topic and to Parquet.

    python -m compat_tests.clients.pyspark.job BOOTSTRAP SOURCE TARGET FOLDER FORMAT

It runs until it is killed; its checkpoints are in FOLDER. It prints the progress of the slower copy repeatedly, as the
sum of the offsets in the source topic.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def position(query: Any, topic: str) -> int:
    """The sum of a query's offsets in the topic's partitions."""
    progress = query.lastProgress
    end = progress["sources"][0]["endOffset"] if progress else None
    if isinstance(end, str):
        end = json.loads(end)
    return sum(offset for number, offset in (end or {}).get(topic, {}).items() if number != "id")


def main(bootstrap: str, source: str, target: str, folder: str, format: str) -> None:
    from examples.spark_orders.pipeline import spark_session, started

    spark = spark_session("kwire killed job", spark_driver_memory="512m", spark_sql_codegen_wholeStage="false")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
    }
    values = spark.readStream.format(format).options(**options).load().select("value")
    files = values.writeStream.format("parquet").option("path", f"{folder}/parquet")
    topic = values.writeStream.format(format).option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    queries = [
        started(writer.option("checkpointLocation", f"{folder}/{name}").trigger(processingTime="100 milliseconds"))
        for name, writer in (("files", files), ("topic", topic))
    ]
    while all(query.isActive for query in queries):
        print(min(position(query, source) for query in queries), flush=True)
        time.sleep(0.2)
    for query in queries:
        print(query.exception(), file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
