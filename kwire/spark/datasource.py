"""`KwireDataSource`: what ``format("kwire")`` is to PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "kwire"


class KwireDataSource(DataSource):
    """Kafka topics, of kwire and of Apache Kafka, without jars. Its options have the names of Spark's Kafka source and
    sink (docs/SPARK.md)."""

    @classmethod
    def name(cls) -> str:
        """The name in ``format``."""
        return NAME

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
    """Make ``format("kwire")`` known to a session."""
    spark.dataSource.register(KwireDataSource)
