"""Archiving into each format: what is killed goes on where the table ends, and nothing is lost or there twice."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kwire.archive.archiving import Archiver, Settings
from kwire.archive.errors import ArchiveError, Conflict
from kwire.archive.portions import Portion
from kwire.archive.sources import Bounds
from tests.archive.tables import FORMATS, ORDERS, Topic, archived, batch, content, opened

SMALL = Settings(rows_max=2)


def expected(topic: Topic) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return sorted(topic.records, key=lambda record: record[:2])


@pytest.mark.parametrize("kind", FORMATS)
def test_each_run_goes_on_where_the_table_ends(kind: str, tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, 0, 1, 2, 5, 9, end=12)  # compacted, and with markers behind
    topic.add(1, 7)
    assert archived(topic, kind, tmp_path, SMALL).records == 6
    assert archived(topic, kind, tmp_path).records == 0
    topic.add(0, 13, 14)
    topic.records.append((2, 0, None, None))  # a tombstone in a partition that is new
    topic.limits[2] = Bounds(0, 1)
    assert archived(topic, kind, tmp_path, rounds=2).records == 3
    topic.what = topic.what._replace(partitions=3)
    assert archived(topic, kind, tmp_path).records == 0
    assert content(kind, tmp_path) == expected(topic)


@pytest.mark.parametrize("kind", FORMATS)
def test_another_topic_cluster_or_incarnation_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, 0, 1)
    archived(topic, kind, tmp_path)
    for change, words in (
        ({"topic_id": "another"}, "was deleted and made again"),
        ({"cluster_id": "another"}, "has records of cluster cluster-id, and this is cluster another"),
    ):
        with pytest.raises(ArchiveError, match=words):
            archived(Topic(ORDERS._replace(**change)), kind, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_table_of_another_topic_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    archived(Topic(), kind, tmp_path)
    with pytest.raises(ArchiveError, match="has records of topic orders, not of payments"):
        archived(Topic(ORDERS._replace(topic="payments")), kind, tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_of_another_format_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    archived(Topic(), kind, tmp_path)
    for other in FORMATS:
        if other != kind:
            with pytest.raises(ArchiveError, match=rf"has a table of another format \({kind}\)"):
                archived(Topic(), other, tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
def test_two_archivers_of_one_folder_are_refused(kind: str, tmp_path: Path) -> None:
    with (
        opened(kind, tmp_path),
        pytest.raises(ArchiveError, match="another kwire archive writes to it"),
        opened(kind, tmp_path),
    ):
        pass


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_of_two_archivers_without_a_common_lock_one_commits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.archive.targets.target._lock", lambda _descriptor, _path: None)
    records = [(0, 0, b"k", b"v")]
    with opened(kind, tmp_path) as one, opened(kind, tmp_path) as other:
        one.commit([Portion(0, 0, 1, [batch(records)])])
        with pytest.raises(Conflict, match="another archiver"):
            other.commit([Portion(0, 0, 1, [batch(records)])])
    assert content(kind, tmp_path) == records


def test_an_optimized_delta_table_goes_on(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    topic = Topic()
    topic.add(0, 0, 1, 2)
    archived(topic, "delta", tmp_path, SMALL)
    topic.add(0, 3)
    with opened("delta", tmp_path) as target:
        table = DeltaTable(str(tmp_path))
        table.optimize.compact()  # after the table was opened, before the commit
        table.create_checkpoint()
        Archiver(topic, target, ORDERS, Settings(), threading.Event()).round()
    for log in (tmp_path / "_delta_log").glob("0*0[0-2].json"):  # what the checkpoint holds as well
        log.unlink()
    assert archived(topic, "delta", tmp_path).records == 0
    assert content("delta", tmp_path) == expected(topic)


def test_offsets_of_an_iceberg_table_outlast_snapshots_of_others(tmp_path: Path) -> None:
    from kwire.archive.targets.iceberg import open_catalog, table_name

    topic = Topic()
    topic.add(0, 0, 1, 2)
    archived(topic, "iceberg", tmp_path, SMALL)
    table = open_catalog(str(tmp_path), None).load_table(table_name(None, "orders"))
    table.delete("offset == 1")
    assert archived(topic, "iceberg", tmp_path).records == 0
    own = [each.snapshot_id for each in table.refresh().metadata.snapshots][:-1]
    table.maintenance.expire_snapshots().by_ids(own).commit()
    assert archived(topic, "iceberg", tmp_path).records == 0
    assert [offset for _, offset, _, _ in content("iceberg", tmp_path)] == [0, 2]


def test_records_deleted_before_they_were_archived_are_an_error_unless_skipped(tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, 0, 1)
    archived(topic, "parquet", tmp_path)
    topic.add(0, 2, 3, 8)
    topic.limits[0] = Bounds(8, 9)
    with pytest.raises(ArchiveError, match=r"orders-0: records from offset 2 to 7 were deleted .*--skip-lost"):
        archived(topic, "parquet", tmp_path)
    assert archived(topic, "parquet", tmp_path, Settings(skip_lost=True)).records == 1
    assert sorted(each.name for each in tmp_path.glob("*.parquet")) == [
        "orders-0-00000000000000000000-00000000000000000002.parquet",
        "orders-0-00000000000000000008-00000000000000000009.parquet",
    ]


def test_a_topic_that_is_shorter_than_the_table_is_an_error_of_brokers_only(tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, *range(10))
    archived(topic, "parquet", tmp_path)
    topic.limits[0] = Bounds(0, 5)
    with pytest.raises(ArchiveError, match="orders-0 ends at offset 5, and the table has what was before 10"):
        archived(topic, "parquet", tmp_path)
    topic.lags = True  # the checkpoints of a data directory
    assert archived(topic, "parquet", tmp_path).records == 0


def test_a_topic_made_again_while_it_is_read_is_not_committed(tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, 0, 1)
    with opened("parquet", tmp_path) as target:
        archiver = Archiver(topic, target, ORDERS, Settings(), threading.Event())
        topic.what = ORDERS._replace(topic_id="another")
        with pytest.raises(ArchiveError, match="made again"):
            archiver.round()
    assert not list(tmp_path.glob("*.parquet"))


def test_what_was_read_is_committed_when_it_is_to_stop(tmp_path: Path) -> None:
    topic, stop = Topic(), threading.Event()
    topic.add(0, *range(9))
    read = topic.read

    def stopping(*arguments: object, **options: object) -> object:
        for each in read(*arguments, **options):  # type: ignore[arg-type]
            yield each
            stop.set()

    topic.read = stopping  # type: ignore[method-assign,assignment]
    with opened("parquet", tmp_path) as target:
        archiver = Archiver(topic, target, ORDERS, Settings(), stop)
        archiver.follow(60)
    topic.read = read  # type: ignore[method-assign]
    assert 0 < archiver.records < 9
    archived(topic, "parquet", tmp_path)
    assert content("parquet", tmp_path) == expected(topic)


def test_a_range_without_records_is_read_once_by_a_run(tmp_path: Path) -> None:
    topic = Topic()
    topic.add(0, 0, end=50)
    archived(topic, "parquet", tmp_path, rounds=3)
    assert [each.start for each in topic.reads] == [0]


def test_a_folder_that_deltalake_cannot_use_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("a%20b", "a[1]"):
        with pytest.raises(ArchiveError, match="the library deltalake cannot use a folder with"):
            archived(Topic(), "delta", tmp_path / name)
    assert not list(tmp_path.iterdir())
