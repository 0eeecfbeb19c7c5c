"""Measure `kwire sql` beside Spark SQL and DuckDB: the same queries over the same records.

    .venv/bin/python -m tools.sql_speed
    .venv/bin/python -m tools.sql_speed --records 200000 --rounds 1

A broker gets JSON records in four partitions. Each query runs as `kwire sql` from the broker and from its data
directory, as Spark SQL over ``format("kwire")`` (two cores, the session already there) and over a Parquet file with the
same columns, and in DuckDB over that file. The best of the rounds counts; the time of a command is that of the whole
process. All answers must be equal, otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from harness.processes.brokers import Broker, make_broker

Answer = list[tuple[str, ...]]

_BATCH: Final = 100_000
_FIRST_MS: Final = 1_763_000_000_000
_SEGMENT_BYTES: Final = 64 * 1024 * 1024


class Query(NamedTuple):
    """A query in DuckDB's and in Spark's dialect; each line is ordered."""

    name: str
    duckdb: str
    spark: str


def queries(records: int) -> list[Query]:
    """What is measured."""
    late = f"{_FIRST_MS + records * 9 // 10}"
    return [
        Query("count", "select count(*) from orders", "select count(*) from orders"),
        Query(
            "group by a field of JSON",
            "select value->>'region', count(*), sum((value->>'amount')::bigint) from orders group by 1 order by 1",
            "select get_json_object(value, '$.region'), count(*), "
            "sum(cast(get_json_object(value, '$.amount') as bigint)) from orders group by 1 order by 1",
        ),
        Query(
            "the last tenth by time",
            "select count(*), sum((value->>'amount')::bigint) from orders "
            f"where timestamp >= make_timestamptz({late}000)",
            "select count(*), sum(cast(get_json_object(value, '$.amount') as bigint)) from orders "
            f"where timestamp >= timestamp_millis({late})",
        ),
    ]


def lines(records: int) -> Iterator[bytes]:
    """The records as JSON Lines for ``kwire produce``."""
    for first in range(0, records, _BATCH):
        yield b"".join(
            b'{"key": "c%d", "timestamp": %d, "value": "{\\"region\\": \\"r%d\\", \\"amount\\": %d, \\"customer\\": '
            b'\\"customer %d\\", \\"paid\\": %s}"}\n'
            % (i % 1000, _FIRST_MS + i, i % 7, i, i % 1000, (b"false", b"true")[i % 3 > 0])
            for i in range(first, min(first + _BATCH, records))
        )


def fill(broker: Broker, records: int) -> None:
    """Write the records to the topic."""
    _kwire("topic", "create", "orders", "--partitions", "4", "-b", broker.bootstrap)
    command = [sys.executable, "-m", "kwire", "produce", "orders", "-i", "jsonl", "-b", broker.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as producer:
        assert producer.stdin is not None
        for each in lines(records):
            producer.stdin.write(each)
        producer.stdin.close()
        if producer.wait():
            raise SystemExit("kwire produce failed")


def _kwire(*arguments: str) -> str:
    command = [sys.executable, "-m", "kwire", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def _of_command(*source: str) -> Callable[[Query], Answer]:
    def ask(query: Query) -> Answer:
        (_, *rows) = csv.reader(io.StringIO(_kwire("sql", *source, "-o", "csv", query.duckdb)))
        return [tuple(row) for row in rows]

    return ask


def _duckdb(parquet: Path) -> Callable[[Query], Answer]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"create view orders as select * replace (value::json as value) from '{parquet}'")
    return lambda query: [tuple(map(str, row)) for row in connection.execute(query.duckdb).fetchall()]


class _Spark:
    """A session with the topic and the file as tables; they have the same columns."""

    def __init__(self, bootstrap: str, parquet: Path) -> None:
        import kwire.spark

        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.memory": "3g",
        }
        self._session = kwire.spark.session("measure", master="local[2]", settings=settings)
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": "orders",
            "kafka.isolation.level": "read_committed",
        }
        topic = self._session.read.format("kwire").options(**options, minPartitions="4").load()
        topic.selectExpr("cast(value as string) as value", "timestamp").createOrReplaceTempView("topic")
        self._session.read.parquet(str(parquet)).createOrReplaceTempView("parquet")

    def over(self, table: str) -> Callable[[Query], Answer]:
        """Answers from one of the tables."""

        def ask(query: Query) -> Answer:
            rows = self._session.sql(query.spark.replace("from orders", f"from {table}")).collect()
            return [tuple(map(str, row)) for row in rows]

        return ask

    def stop(self) -> None:
        """End the JVM's session."""
        self._session.stop()


def measure(records: int, rounds: int, folder: Path) -> int:
    """Print the table; the exit status."""
    broker = make_broker("kwire", folder / "broker", {"log.segment.bytes": str(_SEGMENT_BYTES)})
    broker.start()
    try:
        fill(broker, records)
        parquet = folder / "orders.parquet"
        source = ("-b", broker.bootstrap)
        _kwire("sql", *source, "--to", str(parquet), "select value, timestamp from orders")
        spark = _Spark(broker.bootstrap, parquet)
        try:
            engines = {
                "kwire sql, broker": _of_command(*source),
                "kwire sql, data directory": _of_command("--data-dir", str(broker.data_dir)),
                "Spark SQL, topic": spark.over("topic"),
                "Spark SQL, Parquet": spark.over("parquet"),
                "DuckDB, Parquet": _duckdb(parquet),
            }
            return _table(engines, records, rounds)
        finally:
            spark.stop()
    finally:
        broker.stop()


def _table(engines: dict[str, Callable[[Query], Answer]], records: int, rounds: int) -> int:
    status = 0
    print(f"{records} records, best of {rounds}: seconds, and records of the topic per second")
    for query in queries(records):
        print(f"\n{query.name}")
        answers: dict[str, Answer] = {}
        for name, ask in engines.items():
            best = min(_timed(name, ask, query, answers) for _ in range(rounds))
            print(f"  {name:<26}{best:8.2f}{records / best:14,.0f}", flush=True)
        if len({repr(each) for each in answers.values()}) > 1:
            print(f"  the answers differ: {answers}")
            status = 1
    return status


def _timed(name: str, ask: Callable[[Query], Answer], query: Query, answers: dict[str, Answer]) -> float:
    begin = time.perf_counter()
    answers[name] = ask(query)
    return time.perf_counter() - begin


def main() -> int:
    """Measure, and print a table."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-measure-sql-") as folder:
        return measure(arguments.records, arguments.rounds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
