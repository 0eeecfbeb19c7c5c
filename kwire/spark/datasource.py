"""`KwireDataSource`: what ``format("kwire")`` is to PySpark."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from kwire.spark.archives import keep_unchanged
from kwire.spark.source.filters import FILTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

keep_unchanged()  # each of Spark's Python processes that has to do with the source or the sink loads this module

NAME = "kwire"
_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS: Final = ", headers array<struct<key: string, value: binary>>"


class KwireDataSource(DataSource):
    """Kafka topics, of kwire and of Apache Kafka, without jars. Its options have the names of Spark's Kafka source and
    sink (docs/SPARK.md)."""

    takes_filters = False
    """Whether its readers take filters of queries; PySpark refuses such readers unless it is set to pass filters."""

    @classmethod
    def name(cls) -> str:
        """The name in ``format``."""
        return NAME

    def schema(self) -> str:
        """The columns: those of Spark's Kafka source."""
        return _SCHEMA + (_HEADERS if self.options.get("includeHeaders", "").lower() == "true" else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """The source of batch queries. `SourceError`."""
        if "path" in self.options:
            from kwire.spark.source.files_reader import FilesReader, FilteringFilesReader

            return FilteringFilesReader(self.options) if self.takes_filters else FilesReader(self.options)
        from kwire.spark.source.options import SourceOptions
        from kwire.spark.source.readers import BatchReader, FilteringReader

        options = SourceOptions.parse(self.options, streaming=False)
        return FilteringReader(options) if self.takes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The source of streaming queries. `SourceError`."""
        from kwire.spark.source.errors import SourceError
        from kwire.spark.source.options import SourceOptions

        if "path" in self.options:
            raise SourceError("option path is for batch queries: a stream reads from brokers (kafka.bootstrap.servers)")
        options = SourceOptions.parse(self.options, streaming=True)
        if find_spec("pyspark.sql.streaming.datasource") is None:  # before 4.2
            from kwire.spark.source.readers import OldStreamReader

            return OldStreamReader(options)
        from kwire.spark.source.limited_reader import LimitedStreamReader

        return LimitedStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The sink of batch queries. `SinkError`."""
        from kwire.spark.sink.errors import SinkError
        from kwire.spark.sink.options import SinkOptions
        from kwire.spark.sink.writers import BatchWriter

        if overwrite:
            raise SinkError("a topic cannot be overwritten: use mode append")
        return BatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The sink of streaming queries. `SinkError`."""
        from kwire.spark.sink.options import SinkOptions
        from kwire.spark.sink.writers import StreamWriter

        return StreamWriter(SinkOptions.parse(self.options), schema)


class FilteringDataSource(KwireDataSource):
    """The same for a session that passes filters of queries (`FILTERS`)."""

    takes_filters = True


def register(spark: SparkSession) -> None:
    """Make ``format("kwire")`` known to a session. It warns if PySpark could pass filters of queries (from 4.1 on) but
    is not set to: then more is read than need be."""
    has_filters = find_spec("pyspark.sql.worker.data_source_pushdown_filters") is not None
    passes = has_filters and str(spark.conf.get(FILTERS, "false")).lower() == "true"
    if has_filters and not passes:
        warnings.warn(f"set {FILTERS}=true, so that filters say which offsets are read", stacklevel=2)
    spark.dataSource.register(FilteringDataSource if passes else KwireDataSource)
