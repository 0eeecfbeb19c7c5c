"""`KwireDataSource`: what ``format("kwire")`` is to PySpark."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

keep_unchanged()  # each of Spark's Python processes that has to do with the source or the sink loads this module

NAME = "kwire"
_HIDDEN: Final = "spark.sql.redaction.options.regex"
"""Options with such names or values Spark shows in no plan; passwords, secrets and tokens are hidden anyway."""
_SECRETS: Final = r"jaas\.config|keystore\.key"


class KwireDataSource(DataSource):
    """Kafka topics, of kwire and of Apache Kafka, without jars. Its options have the names of Spark's Kafka source and
    sink (docs/SPARK.md)."""

    @classmethod
    def name(cls) -> str:
        """The name in ``format``."""
        return NAME

    def schema(self) -> StructType:
        """The columns: those of Spark's Kafka source. A query may name some of them in a schema of its own."""
        from kwire.spark.source.columns import all_columns

        return all_columns(headers=self.options.get("includeHeaders", "").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """The source of batch queries. `SourceError`."""
        from kwire.spark.source.columns import named_in

        columns = named_in(schema)
        if "path" in self.options:
            from kwire.spark.source.files_reader import FilesReader

            return FilesReader(self.options, columns)
        from kwire.spark.source.batch_reader import BatchReader
        from kwire.spark.source.options import SourceOptions

        return BatchReader(SourceOptions.parse(self.options, streaming=False)._replace(columns=columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The source of streaming queries. `SourceError`."""
        from kwire.spark.source.columns import named_in
        from kwire.spark.source.errors import SourceError
        from kwire.spark.source.options import SourceOptions

        if "path" in self.options:
            raise SourceError("option path is for batch queries: a stream reads from brokers (kafka.bootstrap.servers)")
        options = SourceOptions.parse(self.options, streaming=True)._replace(columns=named_in(schema))
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


def register(spark: SparkSession) -> None:
    """Make ``format("kwire")`` known to a session, and keep private keys among its options from Spark's plans."""
    spark.dataSource.register(KwireDataSource)
    hidden = spark.conf.get(_HIDDEN) or ""
    if _SECRETS not in hidden:
        spark.conf.set(_HIDDEN, f"{hidden}|{_SECRETS}" if hidden else _SECRETS)
