"""`forget_sink`: let go of a sink's name."""

from __future__ import annotations

from kwire.spark.sink.commits import forget
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.running import run_at


def forget_sink(sink: str, **options: str) -> bool:
    """Forget which query has written as ``sink``, so that another may; whether one had. What is written stays.

    ``options``: those of the sink, such as ``**{"kafka.bootstrap.servers": "localhost:9092"}``. `SinkError` if the
    cluster refuses it."""
    parsed = SinkOptions.parse(options)
    return run_at(parsed, lambda cluster: forget(cluster, parsed, sink))
