"""Tables written back to a topic of a broker: all records once, in order, whatever was killed before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kwire.archive.archiving import Settings
from kwire.archive.errors import ArchiveError
from kwire.archive.restoring.restore import Restored, restore
from kwire.archive.restoring.tables import open_table
from kwire.archive.restoring.target import Options, TargetTopic
from kwire.archive.sources import BrokerSource
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers
from kwire.cli import main
from kwire.cli.configs.requests import describe_resources
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.testing import Kwire, KwireProcess
from tests.archive.tables import FORMATS, ORDERS, Topic, archived, batch

DYNAMIC_TOPIC_CONFIG = 1

T = TypeVar("T")


@pytest.fixture(scope="module")
def process() -> Iterator[KwireProcess]:
    with KwireProcess() as process:
        yield process


@pytest.fixture
def broker(process: KwireProcess) -> Iterator[Kwire]:
    broker = Kwire(process)
    yield broker
    broker.reset()


def options(topic: str, **changes: Any) -> Options:
    return Options(topic, (), -1, 4, 20)._replace(**changes)


def at(broker: Kwire, action: Callable[[Cluster], Awaitable[T]]) -> T:
    async def act() -> T:
        cluster = Cluster.of(broker.bootstrap_servers, {}, 20)
        try:
            return await action(cluster)
        finally:
            cluster.close()

    return asyncio.run(act())


def restored(broker: Kwire, path: Path, topic: str | None = None, **changes: Any) -> Restored:
    """Into a topic that is named after the test's folder, as all tests share a broker."""
    table = open_table(str(path), None, None)
    return at(broker, lambda cluster: restore(cluster, table, options(topic or path.name, **changes)))


def rows(broker: Kwire, topic: str) -> list[dict[str, Any]]:
    """All of a topic, without offsets."""
    source = BrokerSource(Brokers(broker.bootstrap_servers, {}, 20), topic)
    found = []
    for partition, bounds in sorted(source.bounds().items()):
        for each in source.read(Range(topic, partition, bounds.start, bounds.end), strict=True):
            found += each.drop_columns("offset").to_pylist()
    return found


def expected(topic: Topic) -> list[dict[str, Any]]:
    records = sorted(topic.records, key=lambda record: record[:2])
    found: list[dict[str, Any]] = batch(records).drop_columns("offset").to_pylist()
    return [{**each, "headers": each["headers"] or None} for each in found]


def orders() -> Topic:
    topic = Topic()
    topic.add(0, 0, 1, 2, 5, 9, 10, end=12)
    topic.add(1, 7, 8, 30)
    topic.records.append((1, 31, None, None))
    topic.limits[1] = topic.limits[1]._replace(end=32)
    return topic


@pytest.mark.parametrize("kind", FORMATS)
def test_a_restored_topic_equals_the_first(kind: str, broker: Kwire, tmp_path: Path) -> None:
    topic = orders()
    archived(topic, kind, tmp_path, Settings(rows_max=3))
    assert restored(broker, tmp_path) == Restored(tmp_path.name, 2, 10, False)
    assert rows(broker, tmp_path.name) == expected(topic)
    with pytest.raises(ArchiveError, match=f"topic {tmp_path.name} has records"):
        restored(broker, tmp_path)


@pytest.mark.parametrize("before", [True, False])
def test_a_restore_that_was_killed_goes_on(
    before: bool, broker: Kwire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after its transaction's commit, at each transaction in turn."""
    from kwire.cli.records.writing.transaction import Transaction

    topic, commit, count = orders(), Transaction.commit, 0
    archived(topic, "parquet", tmp_path, Settings(rows_max=3))

    async def dying(transaction: Transaction) -> None:
        nonlocal count
        count += 1
        if not before:
            await commit(transaction)
        if count % 2:
            raise KeyboardInterrupt
        if before:
            await commit(transaction)

    monkeypatch.setattr(Transaction, "commit", dying)
    deaths = 0
    while True:
        try:
            done = restored(broker, tmp_path)
            break
        except KeyboardInterrupt:
            deaths += 1
    assert deaths > 1 and done == Restored(tmp_path.name, 2, 10, True)
    assert rows(broker, tmp_path.name) == expected(topic)


def test_an_unfinished_restore_of_another_archive_is_refused(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path / "a")
    table = open_table(str(tmp_path / "a"), None, None)
    at(broker, lambda cluster: TargetTopic(cluster, options(tmp_path.name), table.identity, 2).open())
    other = Topic(ORDERS._replace(topic="payments"))
    other.add(0, 1)
    archived(other, "parquet", tmp_path / "b")
    with pytest.raises(ArchiveError, match=r"a restore of another archive \(of topic orders\) was begun"):
        restored(broker, tmp_path / "b", tmp_path.name)


def test_topics_that_cannot_take_an_archive_are_refused_by_name(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path)
    small = broker.topic(partitions=1)
    with pytest.raises(ArchiveError, match=f"topic {small} has 1 partitions, and the archive has 2"):
        restored(broker, tmp_path, small)
    by_log = {"message.timestamp.type": "LogAppendTime"}
    late = broker.topic(partitions=2, config=by_log)
    with pytest.raises(ArchiveError, match="--config is for a topic that is made"):
        restored(broker, tmp_path, late, configs=[*by_log.items()])
    for topic, configs in ((late, {}), ("made", by_log)):
        with pytest.raises(ArchiveError, match=rf"topic {topic} has message\.timestamp\.type=LogAppendTime"):
            restored(broker, tmp_path, topic, configs=[*configs.items()])
    with pytest.raises(CommandError, match="INVALID_CONFIG"):
        restored(broker, tmp_path, "wrong", configs=[("retention.ms", "x")])


def test_a_limit_of_the_topic_is_named_and_the_same_restore_goes_on(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path)
    small = broker.topic(partitions=2, config={"max.message.bytes": "80"})
    with pytest.raises(CommandError, match=f"kwire config set topic/{small} max.message.bytes=BYTES, and run the same"):
        restored(broker, tmp_path, small)
    address = ["--bootstrap-server", broker.bootstrap_servers]
    assert main(["config", "set", f"topic/{small}", "max.message.bytes=100000", *address]) == 0
    assert restored(broker, tmp_path, small).records == len(orders().records)


def test_timestamps_stay_whatever_the_brokers_default_is(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path)

    async def made(cluster: Cluster) -> list[int]:
        await TargetTopic(cluster, options("kept"), ORDERS, 2)._make()
        described = await describe_resources(cluster, "topic", ["kept"], ["message.timestamp.type"])
        return [each.config_source for each in described["kept"]]

    assert at(broker, made) == [DYNAMIC_TOPIC_CONFIG], "not left to log.message.timestamp.type"


def test_records_of_somebody_else_are_noticed_at_the_end(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path)

    async def disturbed(cluster: Cluster) -> Restored:
        table = open_table(str(tmp_path), None, None)
        target = TargetTopic(cluster, options(tmp_path.name), table.identity, 2)
        await target.open()
        await target.write(1, await _one(), 0)
        return await restore(cluster, table, options(tmp_path.name))

    async def _one() -> Any:
        from kwire.cli.records.writing.encoding import Rows

        return Rows([b"x"])

    with pytest.raises(ArchiveError, match=f"{tmp_path.name}-1 has 5 records, and the archive has 4"):
        at(broker, disturbed)


def test_all_records_are_counted_though_the_last_marker_is_written_after_its_commit(
    broker: Kwire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Apache Kafka, which ends a transaction for certain before the next one of its producer."""
    from kwire.archive.restoring import target
    from kwire.cli.connection.offsets import list_offsets
    from kwire.cli.records.writing.transaction import Transaction

    begin, commit, ended = Transaction.begin, Transaction.commit, True

    async def begins(*given: Any, **options: Any) -> Transaction:
        nonlocal ended
        ended = True
        return await begin(*given, **options)

    async def commits(transaction: Transaction) -> None:
        nonlocal ended
        ended = False
        await commit(transaction)

    async def without_the_open_one(cluster: Cluster, wanted: Any, *, committed: bool = False) -> Any:
        found = await list_offsets(cluster, wanted, committed=committed)
        return found if ended or not committed else {each: it._replace(offset=0) for each, it in found.items()}

    monkeypatch.setattr(Transaction, "begin", begins)
    monkeypatch.setattr(Transaction, "commit", commits)
    monkeypatch.setattr(target, "list_offsets", without_the_open_one)
    archived(orders(), "parquet", tmp_path)
    assert restored(broker, tmp_path).records == 10


def test_files_written_anew_in_any_order_are_read_in_the_order_of_the_topic(broker: Kwire, tmp_path: Path) -> None:
    topic = orders()
    archived(topic, "parquet", tmp_path)
    [first, second] = sorted(tmp_path.glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(first), pq.read_table(second)])
    pq.write_table(table.take(list(reversed(range(table.num_rows)))), first, row_group_size=4)
    second.unlink()
    restored(broker, tmp_path)
    assert rows(broker, tmp_path.name) == expected(topic)


def test_an_offset_that_is_there_twice_is_refused(broker: Kwire, tmp_path: Path) -> None:
    archived(orders(), "parquet", tmp_path)
    first = min(tmp_path.glob("*.parquet"))
    table = pq.read_table(first)
    pq.write_table(pa.concat_tables([table, table]), first)
    with pytest.raises(ArchiveError, match="an offset of partition 0 is there twice"):
        restored(broker, tmp_path)


@pytest.mark.parametrize("kind", ["nothing", "file", "damaged", "empty"])
def test_what_is_no_table_is_a_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    if kind == "file":
        path.touch()
    elif kind != "nothing":
        archived(orders(), "parquet", path)
        for each in path.glob("*.parquet" if kind == "damaged" else "_kwire.json"):
            each.write_bytes(b"PAR1 no PAR1") if kind == "damaged" else each.unlink()
    with pytest.raises(ArchiveError):
        table = open_table(str(path), None, None)
        from kwire.archive.restoring import reading

        reading.index(table.files)
