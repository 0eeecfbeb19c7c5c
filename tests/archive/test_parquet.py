"""The folder of Parquet files: what lies in it after a crash, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kwire.archive.errors import ArchiveError, Conflict
from kwire.archive.portions import Portion
from tests.archive.tables import Topic, archived, batch, content, opened

FIRST = "orders-0-00000000000000000000-00000000000000000002.parquet"


def topic() -> Topic:
    made = Topic()
    made.add(0, 0, 1)
    return made


@pytest.mark.parametrize("step", ["fsync", "link", "unlink"])
def test_a_crash_at_any_step_of_a_commit_leaves_all_or_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(Topic(), "parquet", tmp_path)  # an empty table
    with monkeypatch.context() as patch:
        patch.setattr(os, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            archived(topic(), "parquet", tmp_path)
    assert any(name.endswith(".unfinished") for name in os.listdir(tmp_path))
    archived(topic(), "parquet", tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".kwire.lock", "_kwire.json", FIRST]
    assert content("parquet", tmp_path) == topic().records


def test_a_file_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    with opened("parquet", tmp_path) as target:
        (tmp_path / FIRST).write_bytes(b"")
        with pytest.raises(Conflict, match="somebody else has written it"):
            target.commit([Portion(0, 0, 2, [batch(topic().records)])])
    assert (tmp_path / FIRST).read_bytes() == b""


def test_files_with_the_same_offsets_are_refused(tmp_path: Path) -> None:
    archived(topic(), "parquet", tmp_path)
    os.link(tmp_path / FIRST, tmp_path / FIRST.replace("2.parquet", "1.parquet"))
    with pytest.raises(ArchiveError, match="have the same offsets"):
        archived(topic(), "parquet", tmp_path)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ArchiveError, match=r"has Parquet files, and no _kwire\.json"):
        archived(topic(), "parquet", tmp_path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"partition": pa.array([0], pa.int32())}), "has no column offset"),
        (pa.table({"partition": ["0"]}), "column partition has the type string, and kwire writes int32"),
    ],
)
def test_files_with_other_columns_are_refused_by_name(table: pa.Table, words: str, tmp_path: Path) -> None:
    archived(topic(), "parquet", tmp_path)
    pq.write_table(table, tmp_path / FIRST)
    with pytest.raises(ArchiveError, match=words):
        archived(topic(), "parquet", tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"kwire.topic": 1}', "{}"])
def test_a_damaged_description_is_refused(text: str, tmp_path: Path) -> None:
    archived(topic(), "parquet", tmp_path)
    (tmp_path / "_kwire.json").write_text(text)
    with pytest.raises(ArchiveError):
        archived(topic(), "parquet", tmp_path)


def test_a_path_that_cannot_be_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, words in ((tmp_path / "file" / "x", "Not a directory"), (tmp_path / ("x" * 300), "File name too long")):
        with pytest.raises(ArchiveError, match=words):
            archived(topic(), "parquet", path)
