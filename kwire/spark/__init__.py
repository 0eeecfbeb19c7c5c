"""For Spark, through PySpark: a session that has Spark's own Kafka connector, and ``format("kwire")`` without jars.

    spark = kwire.spark.session("orders")
    orders.writeStream.format("kwire").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "orders")

Importing this package costs nothing: what it exports is loaded when it is first used, and needs
``pip install 'kwire[spark]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.spark.avro.functions import from_avro, to_avro
    from kwire.spark.datasource import KwireDataSource, register
    from kwire.spark.sessions import connector_settings, session
    from kwire.spark.sink.errors import SinkError
    from kwire.spark.sink.forgetting import forget_sink

__all__ = [
    "KwireDataSource",
    "SinkError",
    "connector_settings",
    "forget_sink",
    "from_avro",
    "register",
    "session",
    "to_avro",
]

_HOMES = {
    "KwireDataSource": "datasource",
    "SinkError": "sink.errors",
    "connector_settings": "sessions",
    "forget_sink": "sink.forgetting",
    "from_avro": "avro.functions",
    "register": "datasource",
    "session": "sessions",
    "to_avro": "avro.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from kwire.base.extras import missing

    if line := missing("spark"):
        raise ImportError(line)
    return getattr(import_module(f"kwire.spark.{_HOMES[name]}"), name)
