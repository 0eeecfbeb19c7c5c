"""Start a continuous query, and wait until it ends or is to end."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.reading import Brokers
from kwire.base.extras import missing
from kwire.sql.continuous import views
from kwire.sql.continuous.definition import Definition, checked_name, folder_of, forget_new, keep, kept
from kwire.sql.errors import SqlError, UsageError
from kwire.sql.topics.brokers import BrokerTopics
from kwire.sql.topics.sampling import sampled_kinds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOG: Final = "spark.log"
"""Beside the checkpoint: what Spark's processes write to standard error, since the last start."""
_LOOK_S: Final = 0.2
_RECORD: Final = ("key", "value", "headers", "partition")
_DELTA: Final = {(4, 0): "io.delta:delta-spark_2.13:4.0.0"}
"""PySpark -> the library for Delta tables."""
_DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
}


def run(arguments: argparse.Namespace, brokers: Brokers) -> int:
    """The exit status of ``kwire sql --continuous``. `SqlError`, `CommandError`, `ReadError`, OSError."""
    _check(arguments)
    if line := missing("spark"):
        raise SqlError(line)
    name = checked_name(arguments.name or Path(arguments.to_topic or arguments.to).name)
    folder = folder_of(name, arguments.checkpoint)
    definition = _defined(arguments, brokers, name, folder)
    with _stderr_to(folder / LOG):
        spark = _session(name, definition.form)
    try:
        try:
            query = _started(spark, arguments, brokers, name, folder, definition)
        except Exception:
            forget_new(folder)
            raise
        print(f"kwire sql ready name={name} checkpoint={folder}", flush=True)
        _wait(query)
    except SqlError:
        raise
    except Exception as error:
        raise SqlError(reason(error)) from None
    finally:
        spark.stop()
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """`UsageError` for options that do not fit."""
    if not arguments.query:
        raise UsageError("--continuous needs a query of Spark SQL on the command line")
    if not arguments.to and not arguments.to_topic:
        raise UsageError("--continuous needs a target: --to-topic TOPIC, or --to FOLDER for a table")
    for option, value in (("--data-dir", arguments.data_dir), ("--as-of", arguments.as_of)):
        if value:
            raise UsageError(f"{option} is for queries that end: --continuous reads from brokers")


def _defined(arguments: argparse.Namespace, brokers: Brokers, name: str, folder: Path) -> Definition:
    """What the name stands for: what is kept of it, or what it is from now on. `SqlError` if that is something else."""
    before = kept(folder)
    form = None if arguments.to_topic else arguments.table_format
    target = arguments.to_topic or str(Path(arguments.to).absolute())
    wanted = Definition(arguments.query, target, form, before.kinds if before else _kinds(arguments, brokers))
    if before is not None and (difference := wanted.difference(before)):
        raise SqlError(f"--name {name} has {difference} ({folder}): give the new query another name")
    if before is None:
        keep(folder, wanted)
    return wanted


def _kinds(arguments: argparse.Namespace, brokers: Brokers) -> dict[str, Any]:
    """The types of the keys and values of the topics that a query names."""
    source = BrokerTopics(brokers)
    keys, values = dict(arguments.key_type), dict(arguments.value_type)
    found = {}
    for topic in views.named_in(arguments.query, source.topics()):
        key, value = sampled_kinds(source, topic, source.spans(topic))
        found[topic] = (keys.get(topic, keys.get("", key)), values.get(topic, values.get("", value)))
    if not found:
        raise SqlError(f"the query names no topic of {source.where}")
    return found


def _session(name: str, form: str | None) -> SparkSession:
    """`SqlError` if Spark does not start."""
    from pyspark import __version__
    from pyspark.logger import PySparkLogger

    import kwire.spark

    settings = dict(_QUIET)
    if form == "delta":
        release = tuple(map(int, __version__.split(".")[:2]))
        if release not in _DELTA:
            raise SqlError(f"--table-format delta needs PySpark 4.0, not {__version__}: pip install 'pyspark<4.1'")
        settings |= {**_DELTA_SETTINGS, "spark.jars.packages": _DELTA[release]}
    for logger in (logging.getLogger("py4j"), PySparkLogger.getLogger("SQLQueryContextLogger")):
        logger.setLevel(logging.CRITICAL)  # the second one would print a wrong query's Java frames
    try:
        return kwire.spark.session(f"kwire sql {name}", master="local[*]", settings=settings)
    except Exception as error:
        raise SqlError(f"Spark does not start (it needs Java 17 or later): {reason(error)}") from None


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes that are started here write to a file, not between the lines of this one. OSError."""
    before = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(file)


def _started(
    spark: SparkSession,
    arguments: argparse.Namespace,
    brokers: Brokers,
    name: str,
    folder: Path,
    definition: Definition,
) -> StreamingQuery:
    views.create(spark, brokers, definition.kinds, arguments.start, arguments.watermark)
    rows = spark.sql(definition.query)
    if not rows.isStreaming:
        raise SqlError("the query reads no topic as a stream")
    if definition.form is None:
        rows = as_records(rows)
    writer = rows.writeStream.queryName(name).option("checkpointLocation", str(folder / "checkpoint"))
    if arguments.until_end:
        writer = writer.trigger(availableNow=True)
    elif arguments.every is not None:
        writer = writer.trigger(processingTime=f"{round(arguments.every * 1000)} milliseconds")
    if definition.form is not None:
        return writer.format(definition.form).start(definition.target)
    writer = writer.format("kwire").options(**views.options(brokers))
    return writer.option("topic", definition.target).option("sinkId", f"kwire sql {name}").start()


def as_records(rows: DataFrame) -> DataFrame:
    """The columns of a record if there is a ``value``; otherwise a row as a JSON object is the value."""
    if "value" not in rows.columns:
        return rows.selectExpr("to_json(struct(*)) as value")
    types = dict(rows.dtypes)
    wanted = [each for each in _RECORD if each in types]
    contents = {each for each in ("key", "value") if types.get(each) not in ("string", "binary", None)}
    return rows.selectExpr(*(f"cast({each} as string) as {each}" if each in contents else each for each in wanted))


def _wait(query: StreamingQuery) -> None:
    """Until the query ends, or SIGTERM or Ctrl-C end it after the batch that runs."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type] # a fraction of a second is possible
            if stopping.is_set():
                query.stop()
                return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reason(error: Exception) -> str:
    """Spark's message on one line: the first of it, without Java's frames and the plan."""
    text = str(getattr(error, "desc", None) or error)
    text = text.partition("terminated with exception: ")[2] or text
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    causes = [each.partition("Error: ")[2] for each in lines if ".errors." in each and "Error: " in each]
    found = (causes[-1] if causes else lines[0] if lines else type(error).__name__).partition(" SQLSTATE")[0]
    if "utput mode not supported" in found or "OUTPUT_MODE" in found:
        found += " (group by window(timestamp, …), and say by --watermark how late records may come)"
    return found
