"""Segment files: what is read of them is what a consumer is given, or an error."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.arrow.files.directory import Identity
from kwire.cli.connection.cluster import Cluster
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.spark.source.batch_reader import BatchReader
from kwire.spark.source.errors import DataLossError, SourceError
from kwire.spark.source.files_reader import FilesReader
from kwire.spark.source.options import SourceOptions
from kwire.testing import Kwire, KwireProcess

SETTINGS = {"log.segment.bytes": str(1 << 20), "replica.high.watermark.checkpoint.interval.ms": "200"}
COMMITTED = {"kafka.isolation.level": "read_committed"}
Row = tuple[str, int, int, bytes | None, bytes | None]


class Log:
    """A broker whose files are read."""

    def __init__(self, folder: Path) -> None:
        self.process = KwireProcess(SETTINGS, data_dir=folder)
        self.process.start()
        self.broker = Kwire(self.process)
        self.folder = folder

    def topic(self, **config: str) -> str:
        named = {name.replace("_", "."): value for name, value in config.items()}
        return self.broker.topic(partitions=2, config=named or None)

    def write(self, topic: str, first: int, end: int, *, keys: int = 10**9, transaction: str = "") -> None:
        """Numbers; ``transaction``: "commit", "abort" or "open"."""
        name = {"transactional.id": self.broker.name("t")} if transaction else {}
        producer = Producer({"bootstrap.servers": self.process.bootstrap_servers, "linger.ms": 1, **name})
        if transaction:
            producer.init_transactions(20)
            producer.begin_transaction()
        for number in range(first, end):
            producer.produce(topic, b"%05000d" % number, b"%d" % (number % keys), number % 2)
            if number % 50 == 0:
                producer.flush(20)  # batches of their own, so that there are segments
        assert producer.flush(20) == 0
        if transaction == "commit":
            producer.commit_transaction(20)
        elif transaction == "abort":
            producer.abort_transaction(20)
        elif transaction == "open":
            _OPEN.append(producer)

    def cut(self, topic: str, offset: int) -> None:
        own = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[own])], timeout_ms=10_000)

        async def act() -> None:
            cluster = Cluster.of(self.process.bootstrap_servers, {}, 20)
            await cluster.call(request)
            cluster.close()

        asyncio.run(act())

    def from_broker(self, topic: str, **given: str) -> list[Row]:
        least = {"kafka.bootstrap.servers": self.process.bootstrap_servers, "subscribe": topic}
        reader = BatchReader(SourceOptions.parse({**least, **given}, streaming=False))
        return sorted(row for part in reader.partitions() for row in rows(reader, part))

    def from_files(self, topic: str, **given: str) -> list[Row]:
        reader = self.reader(topic, **given)
        return sorted(row for part in reader.partitions() for row in rows(reader, part))

    def reader(self, topic: str, **given: str) -> FilesReader:
        return FilesReader({"path": str(self.folder), "subscribe": topic, **given})

    def part(self, topic: str) -> Path:
        return self.folder / f"{topic}-0"


_OPEN: list[Producer] = []


def rows(reader: FilesReader | BatchReader, part: object) -> Iterator[Row]:
    for table in reader.read(part):
        for each in table.to_pylist():
            yield each["topic"], each["partition"], each["offset"], each["key"], each["value"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "data")
    yield log
    _OPEN.clear()
    log.process.kill()


def test_all_records_of_all_segments_are_read(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 1000)
    expected = log.from_broker(topic)
    log.process.stop()
    assert len(log.reader(topic).partitions()) > 4, "a task for each segment"
    assert log.from_files(topic) == expected
    assert len(expected) == 1000


def test_nothing_above_the_high_watermark_is_shown(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 100)
    log.process.stop()
    checkpoint = log.folder / "replication-offset-checkpoint"
    lines = [line.replace(f"{topic} 0 50", f"{topic} 0 20") for line in checkpoint.read_text().splitlines()]
    checkpoint.write_text("\n".join(lines) + "\n")
    shown = log.from_files(topic)
    assert [row[2] for row in shown if row[1] == 0] == list(range(20))
    checkpoint.unlink()
    assert log.from_files(topic) == []


def test_what_was_deleted_is_not_shown(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 400)
    log.cut(topic, 33)
    expected = log.from_broker(topic)
    log.process.stop()
    assert log.from_files(topic) == expected
    assert min(row[2] for row in expected if row[1] == 0) == 33
    start = f'{{"{topic}": {{"0": 5, "1": 0}}}}'
    with pytest.raises(DataLossError, match=f"{topic}-0 begins at offset 33, and 5 was to be read"):
        log.from_files(topic, startingOffsets=start)
    assert log.from_files(topic, startingOffsets=start, failOnDataLoss="false") == expected


@pytest.mark.parametrize("killed", [False, True])
def test_transactions_are_shown_as_a_consumer_sees_them(log: Log, killed: bool) -> None:
    """Also when the broker was killed, and no snapshot of the producers was written at the end."""
    topic = log.topic()
    for first, how in enumerate(["commit", "abort", "commit", "abort", "", "open", "commit"]):
        log.write(topic, first * 100, first * 100 + 100, transaction=how)
    expected = {kind: log.from_broker(topic, **given) for kind, given in (("all", {}), ("committed", COMMITTED))}
    if killed:
        wait_for_checkpoint(log, topic, 350)
        log.process.kill()
    else:
        log.process.stop()
    assert log.from_files(topic) == expected["all"]
    assert log.from_files(topic, **COMMITTED) == expected["committed"]
    assert len(expected["committed"]) == 300
    assert len(expected["all"]) == 700


def wait_for_checkpoint(log: Log, topic: str, end: int) -> None:
    """Until the running broker has written high watermarks beyond an offset."""
    from harness.processes.brokers import wait_until

    checkpoint = log.folder / "replication-offset-checkpoint"

    def written() -> bool:
        lines = checkpoint.read_text().split("\n") if checkpoint.exists() else []
        found = [int(line.split()[2]) for line in lines if line.startswith(f"{topic} ")]
        return len(found) == 2 and min(found) >= end

    wait_until(written, 30, "the checkpoint")


def test_compacted_topics_are_read_as_they_are(log: Log) -> None:
    topic = log.topic(cleanup_policy="compact")
    log.write(topic, 0, 1000, keys=40)
    expected = log.from_broker(topic)
    log.process.stop()
    assert log.from_files(topic) == expected


def test_a_directory_in_use_is_read(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 500)
    wait_for_checkpoint(log, topic, 250)
    assert log.from_files(topic) == log.from_broker(topic)


def test_nothing_is_written_and_internal_topics_are_not_shown_unless_named(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 300, transaction="commit")
    log.process.stop()

    def state() -> list[tuple[str, int, int]]:
        found = (Path(folder) / name for folder, _, files in os.walk(log.folder) for name in files)
        return sorted((str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in found)

    before = state()
    reader = FilesReader({"path": f"file:{log.folder}", **COMMITTED})
    assert {row[0] for part in reader.partitions() for row in rows(reader, part)} == {topic}
    internal = FilesReader({"path": str(log.folder), "subscribe": "__transaction_state"})
    assert any(True for part in internal.partitions() for _ in rows(internal, part))
    assert state() == before


# -- while it is read ------------------------------------------------------------------------------------------------


def remove_first_segment(part: Path) -> None:
    min(part.glob("*.log")).unlink()


def make_again(part: Path) -> None:
    metadata = part / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("topic_id: ", "topic_id: A", 1)[:-2] + "\n")


def truncate(part: Path) -> None:
    last = max(part.glob("*.log"))
    os.truncate(last, last.stat().st_size // 2)


def truncate_with_a_new_epoch(part: Path) -> None:
    (part / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 10\n")


def lower_the_high_watermark(part: Path) -> None:
    checkpoint = part.parent / "replication-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()
    checkpoint.write_text(
        "\n".join(f"{part.name[:-2]} 0 9" if line.startswith(part.name[:-2] + " 0") else line for line in lines) + "\n"
    )


def damage(part: Path) -> None:
    first = min(part.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(bytes(data))


def remove_all(part: Path) -> None:
    shutil.rmtree(part)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove_first_segment, "the segment with offset 0 was deleted meanwhile"),
        (make_again, "the topic was made again, or its log truncated, meanwhile|topic_id"),
        (truncate, "ends before offset|does not end inside the file|the file ends inside"),
        (truncate_with_a_new_epoch, "the topic was made again, or its log truncated, meanwhile"),
        (lower_the_high_watermark, "the topic was made again, or its log truncated, meanwhile"),
        (damage, "the checksum does not match|magic|does not end inside"),
        (remove_all, "it was deleted meanwhile|the topic was made again"),
    ],
)
def test_what_changes_after_planning_is_an_error(log: Log, change: Callable[[Path], None], message: str) -> None:
    topic = log.topic()
    log.write(topic, 0, 1000)
    log.process.stop()
    reader = log.reader(topic)
    parts = reader.partitions()
    change(log.part(topic))
    with pytest.raises(SourceError, match=message):
        [row for part in parts for row in rows(reader, part)]


def test_a_segment_that_is_deleted_while_it_is_read_is_read_to_its_end(log: Log) -> None:
    topic = log.topic()
    log.write(topic, 0, 1000)
    log.process.stop()
    expected = [row for row in log.from_files(topic) if row[1] == 0]
    reader = log.reader(topic)
    first = next(part for part in reader.partitions() if part.planned.wanted.partition == 0)  # type: ignore[attr-defined]
    found: list[Row] = []
    for row in rows(reader, first):
        if not found:
            remove_first_segment(log.part(topic))
        found.append(row)
    assert found == expected[: len(found)]
    assert len(found) == first.planned.wanted.size  # type: ignore[attr-defined]


def test_a_compaction_that_is_under_way_is_waited_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = log.topic()
    log.write(topic, 0, 400)
    log.process.stop()
    expected = log.from_files(topic)
    first = min(log.part(topic).glob("*.log"))
    swap = first.with_name(f"{first.name}.swap")
    first.rename(swap)
    looks = 0

    def look(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            swap.rename(first)

    monkeypatch.setattr("kwire.arrow.files.directory.time.sleep", look)
    assert log.from_files(topic) == expected
    first.rename(swap)
    with pytest.raises(SourceError, match="a compaction has not ended; start a broker there"):
        log.from_files(topic)


def test_retention_meanwhile_is_no_error_for_what_it_does_not_take(log: Log) -> None:
    """It moves the start of the first leader epoch."""
    topic = log.topic()
    log.write(topic, 0, 1000)
    log.process.stop()
    reader = log.reader(topic)
    last = [part for part in reader.partitions() if part.planned.wanted.partition == 0][-1]  # type: ignore[attr-defined]
    expected = [row for row in log.from_files(topic) if row[1] == 0 and row[2] >= last.planned.wanted.start]  # type: ignore[attr-defined]
    (log.part(topic) / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {last.planned.wanted.start}\n")  # type: ignore[attr-defined]
    assert list(rows(reader, last)) == expected


@pytest.mark.parametrize(
    ("epochs", "is_same"),
    [
        ([(3, 0), (4, 50), (7, 80)], True),
        ([(4, 60), (7, 80)], True),
        ([(7, 90)], True),
        ([(3, 0), (4, 50)], False),
        ([(3, 0), (4, 50), (7, 80), (8, 90)], False),
        ([(4, 40), (7, 80)], False),
        ([(4, 50), (7, 81)], False),
        ([(8, 80)], False),
        ([], False),
    ],
)
def test_only_the_first_epochs_of_a_log_may_go(epochs: list[tuple[int, int]], is_same: bool) -> None:
    planned = Identity(b"id", ((3, 0), (4, 50), (7, 80)))
    assert planned.may_become(Identity(b"id", tuple(epochs))) is is_same
    assert not planned.may_become(Identity(b"other", tuple(epochs)))
    assert Identity(b"", ()).may_become(Identity(b"", ()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "/nowhere"}, "/nowhere: No such file or directory: give the folder of log.dirs"),
        ({"path": "/"}, "/: no data directory, it has no meta.properties"),
        ({"kafka.bootstrap.servers": "x:1"}, "kafka.bootstrap.servers means nothing with path"),
        ({"subscribe": "nowhere"}, "nowhere is not in this directory"),
        ({"assign": '{"nowhere": [0]}'}, "nowhere-0 is not in this directory"),
        ({"startingTimestamp": "1"}, "timestamps mean nothing with path: filter by the column timestamp"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, given: dict[str, str], message: str) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(SourceError, match=message):
        FilesReader({"path": str(tmp_path), **given}).partitions()
