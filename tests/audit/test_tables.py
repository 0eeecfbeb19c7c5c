"""Tables as ends: Parquet, what Spark's queries have committed of it, Delta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.auditing.audits import Audits, Record, Topics
from kwire.audit.ends import TableEnd
from kwire.audit.errors import AuditError
from kwire.audit.tables import table_files

ORDERS: list[dict[str, Any]] = [
    {"id": number, "amount": number / 4, "region": f"r{number % 3}"} for number in range(24)
]


def written(folder: Path, rows: list[dict[str, Any]], name: str = "part-0.parquet") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / name)
    return folder


def test_a_topic_of_json_and_a_table_with_columns(audit: Audits, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make([Record(json.dumps(each).encode(), b"k%d" % each["id"]) for each in ORDERS])
    columns = [{"order_id": each["id"], "amount": each["amount"], "place": each["region"]} for each in ORDERS]
    fields = ["--identity", "$.id=order_id", "--compare", "$.amount=amount", "--compare", "$.region=place"]
    assert audit(topic, written(tmp_path / "equal", columns), *fields).row["verdict"] == "equal"
    columns[3] = {**columns[3], "amount": 0.76}
    found = audit(topic, written(tmp_path / "wrong", [*columns[1:], columns[5]]), *fields)
    assert (found.status, found.faults) == (1, {"changed": 1, "duplicate": 1, "missing": 1})
    changed = found.row["examples"][0]
    assert json.loads(changed["copy"]["value"]) == columns[3]
    assert json.loads(changed["source"]["value"]) == ORDERS[3]


def test_a_table_with_keys_and_values_needs_no_fields(audit: Audits, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make([Record(b"value %d" % number, b"key") for number in range(9)])
    rows = [{"key": b"key", "value": f"value {number}"} for number in range(9)]  # a binary column and a text
    assert audit(topic, written(tmp_path / "t", rows)).status == 0
    assert audit(written(tmp_path / "t", rows), written(tmp_path / "u", rows[:-1])).faults == {"missing": 1}


def test_only_files_that_a_query_of_spark_has_committed_count(audit: Audits, tmp_path: Path) -> None:
    table = written(tmp_path / "table", ORDERS[:6], "a.parquet")
    for name, rows in (("b", ORDERS[6:12]), ("c", ORDERS[12:]), ("given-up", ORDERS)):
        written(table, rows, f"{name}.parquet")
    log = table / "_spark_metadata"
    log.mkdir()

    def entries(*names: str, action: str = "add") -> str:
        lines = [json.dumps({"path": f"file://{table}/{name}.parquet", "action": action}) for name in names]
        return "\n".join(["v1", *lines])

    (log / "0").write_text(entries("given-up"))
    (log / "1.compact").write_text(entries("a", "b", "c"))
    (log / "2").write_text(entries("c", action="delete"))
    (log / ".2.crc").write_text("x")
    assert table_files(TableEnd("", str(table), "parquet")) == [f"{table}/a.parquet", f"{table}/b.parquet"]
    (tmp_path / "new").mkdir()
    moved = table.rename(tmp_path / "new" / "table")
    log = moved / "_spark_metadata"
    assert audit(moved, written(tmp_path / "copy", ORDERS[:12]), "--identity", "id").status == 0
    (log / "3").write_text("v2\n")
    assert "v1 is understood" in audit(moved, moved, "--identity", "id").error


def test_delta_tables_have_the_files_of_their_newest_version(audit: Audits, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, pa.Table.from_pylist(ORDERS))
    deltalake.write_deltalake(path, pa.Table.from_pylist(ORDERS[:5]), mode="overwrite")
    table = written(tmp_path / "plain", ORDERS[:5])
    fields = ["--identity", "id", "--compare", "amount"]
    assert audit(f"delta:{path}", table, *fields).status == 0
    assert audit(path, written(tmp_path / "plain", ORDERS[:4]), *fields).faults == {"missing": 1}


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    for kind, path, line in (
        ("parquet", tmp_path / "nowhere", "there is no such file or folder"),
        ("parquet", tmp_path, "no Parquet file lies in it"),
        ("delta", tmp_path, "no table of Delta Lake"),
    ):
        with pytest.raises(AuditError, match=line):
            table_files(TableEnd("", str(path), kind))
