"""Generated queries by ``kwire sql``: the answers equal those of DuckDB over the same records as a plain table.

    .venv/bin/python -m campaigns.sql.queries
    .venv/bin/python -m campaigns.sql.queries --queries 2000 --seed 7 --broker kafka

A topic gets records with times in no order, tombstones, headers, transactions that were aborted, and values that are no
JSON. librdkafka's consumer reads it into a table of DuckDB. Each query, of conditions on all columns in random shapes,
runs there, over the brokers and over the data directory; the rows must be the same. What conditions leave out of the
reading may therefore never have a row.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from harness.processes.brokers import KINDS, Broker, make_broker, wait_until
from kwire.arrow.reading import Brokers
from kwire.sql.session import Limits, Session
from kwire.sql.topics.brokers import BrokerTopics
from kwire.sql.topics.directories import DirectoryTopics
from kwire.sql.topics.forms import Forms
from kwire.sql.topics.source import Source

TOPIC: Final = "orders"
PARTITIONS: Final = 3
FIRST_MS: Final = 1_763_000_000_000
_SPAN_MS: Final = 100_000
_SEGMENT_BYTES: Final = 1024 * 1024
_SCHEMA: Final = (
    'key varchar, value json, headers struct(key varchar, value blob)[], partition integer, "offset" bigint, '
    "timestamp timestamptz, value_bytes blob, key_bytes blob"
)


def fill(bootstrap: str, random: Random, records: int) -> None:
    """Make the topic and write its records."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"segment.bytes": str(_SEGMENT_BYTES)}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=settings)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 50})
    for index in range(records):
        producer.produce(TOPIC, **_record(random, index))
        if index % 500 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0
    _transactions(bootstrap, random)


def _record(random: Random, index: int) -> dict[str, Any]:
    value: bytes | None = json.dumps(
        {
            "region": random.choice(["eu", "us", "asia"]),
            "amount": random.randrange(1000),
            "pad": "x" * random.randrange(1500),
        }
    ).encode()
    if random.random() < 0.05:
        value = random.choice([None, b"no JSON", b"\xff\xfe", b""])
    return {
        "key": random.choice([None, b"k%d" % random.randrange(20)]),
        "value": value,
        "partition": random.randrange(PARTITIONS),
        # Rising on the whole, so that segments can be left out; with outliers on both sides.
        "timestamp": FIRST_MS + index * 10 + random.choice([0, 0, random.randrange(-_SPAN_MS, _SPAN_MS)]),
        "headers": [("h", b"%d" % random.randrange(3))] if random.random() < 0.2 else None,
    }


def _transactions(bootstrap: str, random: Random) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "campaign"})
    producer.init_transactions(60)
    for turn in range(6):
        producer.begin_transaction()
        for index in range(20):
            producer.produce(TOPIC, **_record(random, index))
        assert producer.flush(60) == 0
        producer.abort_transaction() if turn % 2 else producer.commit_transaction()


def plain_table(bootstrap: str) -> Any:
    """A database with the records that a consumer with read_committed gets."""
    import duckdb

    connection = duckdb.connect(config={"threads": "1", "python_enable_replacements": "false"})
    connection.execute(f"create table {TOPIC} ({_SCHEMA})")
    rows = _consumed(bootstrap)
    connection.executemany(
        f"insert into {TOPIC} select k, try_cast(v as json), h, p, o, make_timestamptz(t * 1000), vb, kb from "
        "(select ?::varchar k, ?::varchar v, ?::struct(key varchar, value blob)[] h, ?::integer p, ?::bigint o, "
        "?::bigint t, ?::blob vb, ?::blob kb)",
        rows,
    )
    return connection


def _consumed(bootstrap: str) -> list[list[Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "campaign", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    rows: list[list[Any]] = []
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the consumer gets nothing more"
        if message.error():
            ended += 1
            continue
        key: Any = message.key()
        value: Any = message.value()
        own: Any = message.headers()
        headers = [{"key": name, "value": content} for name, content in own] if own else None
        place = [message.partition(), message.offset(), message.timestamp()[1]]
        rows.append([_text(key), _text(value), headers, *place, value, key])
    consumer.close()
    return rows


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


class Generator:
    """Makes queries; each has an order of rows that is part of the answer, or is compared as a set."""

    def __init__(self, random: Random, ends: list[int], records: int) -> None:
        self._random = random
        self._ends = ends
        self._records = records

    def query(self) -> str:
        """One query."""
        random = self._random
        where = self._condition(random.randrange(1, 4))
        shape = random.randrange(7)
        if shape == 0:
            return f"select * from {TOPIC} where {where}"
        if shape == 1:
            return (
                f'select partition, count(*), min("offset"), max(timestamp), count(value) from {TOPIC} where {where} '
                "group by partition"
            )
        if shape == 2:
            return f"select value->>'region', sum((value->>'amount')::int) from {TOPIC} where {where} group by 1"
        if shape == 3:
            return (
                f'with part as (select * from {TOPIC} where {where}) select p.partition, p."offset", o.key from part p '
                f'join {TOPIC} o using (partition, "offset") where {self._condition(1, "o.")}'
            )
        if shape == 4:
            inner = f'select max("offset") from {TOPIC} where {self._condition(1)}'
            return f'select key, "offset" from {TOPIC} where {where} and "offset" <= ({inner})'
        if shape == 5:
            return (
                f'select partition, "offset", timestamp from {TOPIC} where {where} '
                f'order by timestamp desc, partition, "offset" limit {random.randrange(1, 50)}'
            )
        return (
            f'select "offset", key from {TOPIC} where {where} union all select "offset", key from {TOPIC} '
            f"where {self._condition(2)}"
        )

    def _condition(self, depth: int, prefix: str = "") -> str:
        random = self._random
        if depth == 0 or random.random() < 0.2:
            return self._leaf(prefix)
        parts = [self._condition(depth - 1, prefix) for _ in range(random.randrange(2, 4))]
        joined = random.choice([" and ", " and ", " or "]).join(f"({each})" for each in parts)
        return f"not ({joined})" if random.random() < 0.15 else joined

    def _leaf(self, prefix: str) -> str:
        random = self._random
        kind = random.randrange(9)
        operator = random.choice(["<", "<=", "=", ">=", ">", "<>"])
        if kind <= 1:
            return self._about(f'{prefix}"offset"', self._offset, operator)
        if kind == 2:
            return self._about(f"{prefix}partition", lambda: str(random.randrange(-1, PARTITIONS + 1)), operator)
        if kind <= 5:
            return self._about(f"{prefix}timestamp", self._time, operator)
        if kind == 6:
            return random.choice(
                [f"{prefix}key = 'k{random.randrange(20)}'", f"{prefix}key is null", f"{prefix}key like 'k1%'"]
            )
        if kind == 7:
            return random.choice(
                [f"{prefix}value is not null", f"{prefix}value->>'region' = 'eu'", f"{prefix}value_bytes is null"]
            )
        return random.choice(
            [f'{prefix}"offset" % 7 = 3', f"len({prefix}headers) > 0", f'{prefix}"offset" + {prefix}partition > 40']
        )

    def _about(self, column: str, value: Callable[[], str], operator: str) -> str:
        random = self._random
        shape = random.randrange(6)
        if shape == 0:
            return f"{column} between {value()} and {value()}"
        if shape == 1:
            return f"{column} {random.choice(['in', 'not in'])} ({', '.join(value() for _ in range(3))})"
        if shape == 2:
            return f"{value()} {operator} {column}"
        return f"{column} {operator} {value()}"

    def _offset(self) -> str:
        number = self._random.randrange(-10, max(self._ends) + 10)
        return self._random.choice([str(number), f"{number}::hugeint", f"'{number}'::bigint"])

    def _time(self) -> str:
        random = self._random
        at = FIRST_MS + random.randrange(-_SPAN_MS, self._records * 10 + _SPAN_MS)
        return random.choice(
            [
                f"make_timestamptz({at}000)",
                f"to_timestamp({at / 1000})",
                f"make_timestamptz({at}001)",
                f"(make_timestamptz({at}000) - interval {random.randrange(60)} second)",
                "(now() - interval 1 hour)",
            ]
        )


class Outcome(NamedTuple):
    """``offsets``: how many of those that there are were read, over all queries."""

    queries: int
    offsets: int
    offsets_there: int


def run(broker: Broker, queries: int, seed: int, records: int, folder: Path) -> Outcome:
    """Compare the answers to queries. AssertionError names the one that differs."""
    random = Random(seed)
    fill(broker.bootstrap, random, records)
    plain = plain_table(broker.bootstrap)
    ends = [int(each[0]) for each in plain.execute(f'select max("offset") from {TOPIC} group by partition').fetchall()]
    generator = Generator(random, ends, records)
    directory = DirectoryTopics([str(broker.data_dir)])
    brokers = BrokerTopics(Brokers(broker.bootstrap, {}, 60))
    wait_until(lambda: directory.spans(TOPIC) == brokers.spans(TOPIC), 60, "the checkpoint of the high watermark")
    sessions = [_session(each, folder) for each in (brokers, directory)]
    read = there = 0
    for number in range(queries):
        text = generator.query()
        expected = _rows(plain.execute(text).fetchall(), text)
        for session in sessions:
            (statement,) = session.statements(text)
            relation = session.run(statement)
            assert relation is not None
            found = _rows(relation.fetchall(), text)
            assert found == expected, f"query {number} of seed {seed} from {session.source.where}: {text}"
            read += sum(each.counts.offsets for each in session.scans)
            there += sum(each.counts.offsets_there for each in session.scans)
    for session in sessions:
        session.close()
    plain.close()
    return Outcome(queries, read, there)


def _session(source: Source, folder: Path) -> Session:
    return Session(source, Limits("1GB", str(folder)), Forms({"": "varchar"}, {"": "json"}))


def _rows(rows: list[Any], text: str) -> list[str]:
    found = [repr(row) for row in rows]
    return found if "order by" in text else sorted(found)


def main() -> int:
    """Run the campaign; 1 if an answer differs."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--broker", choices=KINDS, default="kwire")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-sql-queries-") as folder:
        broker = make_broker(arguments.broker, Path(folder) / "broker")
        broker.start()
        try:
            found = run(broker, arguments.queries, arguments.seed, arguments.records, Path(folder))
        except AssertionError as error:
            print(error)
            return 1
        finally:
            broker.stop()
    print(f"{found.queries} queries equal; {found.offsets:,} of {found.offsets_there:,} offsets read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
