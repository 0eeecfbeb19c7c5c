"""Topics as streaming views of Spark, with the columns that DuckDB's views have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.reading import Brokers
from kwire.sql.topics.columns import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IDENTIFIER: Final = re.compile(r"`((?:[^`]|``)*)`|(\w+)")


def named_in(query: str, topics: Iterable[str]) -> list[str]:
    """The topics whose names are among a query's identifiers. A view of a topic that the query does not mean costs
    nothing: it is never read."""
    words = {each[2] if each[1] is None else each[1].replace("``", "`") for each in _IDENTIFIER.finditer(query)}
    lower = {each.lower() for each in words}
    return sorted(each for each in topics if each in words or each.lower() in lower)


def options(brokers: Brokers) -> dict[str, str]:
    """A cluster as the options of ``format("kwire")``."""
    properties = {f"kafka.{name}": value for name, value in brokers.properties.items() if name != "bootstrap.servers"}
    return {**properties, "kafka.bootstrap.servers": brokers.bootstrap}


def create(
    spark: SparkSession, brokers: Brokers, kinds: Mapping[str, tuple[Kind, Kind]], start: str, watermark: str | None
) -> None:
    """A view for each topic; ``start``: ``earliest`` or ``latest``, for a query that is new. ``watermark``: how late
    records may come (``10 minutes``)."""
    for topic, (key, value) in kinds.items():
        reader = spark.readStream.format("kwire").options(**options(brokers)).option("subscribe", topic)
        reader = reader.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
        rows: Any = reader.option("startingOffsets", start).load()
        columns = [_content("key", key), _content("value", value), "headers", "partition", "offset", "timestamp"]
        if watermark is not None:
            rows = rows.withWatermark("timestamp", watermark)
        rows = rows.withColumnsRenamed({"key": "key_bytes", "value": "value_bytes"})
        rows.selectExpr(*columns, "value_bytes", "key_bytes").createOrReplaceTempView(f"`{topic.replace('`', '``')}`")


def _content(name: str, kind: Kind) -> str:
    """JSON is text to Spark, too: ``get_json_object(value, '$.region')``."""
    if kind == "blob":
        return f"{name}_bytes as {name}"
    return f"try_validate_utf8(cast({name}_bytes as string)) as {name}"
