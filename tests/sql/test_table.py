from __future__ import annotations

from kwire.sql.results.table import columns_of, lines
from kwire.sql.results.texts import Column, unique

NAME, COUNT = Column("name", "VARCHAR"), Column("n", "BIGINT")


def test_numbers_stand_right_and_null_is_named() -> None:
    assert lines([NAME, COUNT], [("a", "10"), (None, "7")], None) == ["name   n", "a     10", "NULL   7"]
    assert Column("x", "UINTEGER").is_number
    assert not Column("x", "INTEGER[]").is_number


def test_a_table_fits_the_terminal() -> None:
    found = lines([NAME, COUNT], [("x" * 100, "1"), ("日本" * 30, "2")], 40)
    assert [columns_of(each) for each in found[1:]] == [40, 40]
    assert found[1].startswith("x" * 36 + "…")


def test_no_content_moves_the_cursor() -> None:
    (_, line) = lines([NAME], [("a\x1b[2J\nb\u202e",)], None)
    assert line == "a\\x1b[2J\\nb\\u202e"


def test_names_of_columns_are_made_unique() -> None:
    found = unique([Column(each, "INTEGER") for each in ("a", "a", "a_1", "a")])
    assert [each.name for each in found] == ["a", "a_2", "a_1", "a_3"]
