"""What a continuous query keeps, and the topics that it names; without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.arrow.reading import Brokers
from kwire.sql.continuous.definition import Definition, checked_name, folder_of, forget_new, keep, kept
from kwire.sql.continuous.running import reason
from kwire.sql.continuous.views import named_in, options
from kwire.sql.errors import SqlError, UsageError

QUERY = Definition("select value from orders", "target", None, {"orders": ("varchar", "json")})


def test_what_is_kept_is_the_same_after_a_restart(tmp_path: Path) -> None:
    assert kept(tmp_path / "new") is None
    keep(tmp_path / "new", QUERY)
    assert kept(tmp_path / "new") == QUERY
    (tmp_path / "new" / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "new" / "checkpoint" / "offsets" / "0").touch()
    forget_new(tmp_path / "new")
    assert kept(tmp_path / "new") == QUERY
    (tmp_path / "new" / "checkpoint" / "offsets" / "0").unlink()
    forget_new(tmp_path / "new")
    assert kept(tmp_path / "new") is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"query": 1}', '{"query": 1, "target": 2, "form": 3, "kinds": []}']
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "kwire.json").write_text(content)
    with pytest.raises(SqlError, match=r"kwire\.json: it is damaged"):
        kept(tmp_path)


def test_a_name_means_one_query() -> None:
    assert QUERY.difference(QUERY._replace(kinds={})) is None
    assert QUERY.difference(QUERY._replace(query="select 1")) == "another query"
    assert QUERY.difference(QUERY._replace(target="other")) == "the target topic other"
    assert QUERY.difference(QUERY._replace(form="delta")) == "the target delta target"


@pytest.mark.parametrize("name", ["", ".", "../x", "a b", "x" * 201, "-x", "a/b"])
def test_a_name_is_one_of_a_folder(name: str) -> None:
    with pytest.raises(UsageError):
        checked_name(name)


def test_the_folder_is_that_of_the_name_or_the_one_given(tmp_path: Path) -> None:
    assert folder_of("n", None, {"XDG_STATE_HOME": "/state"}) == Path("/state/kwire/sql/n")
    assert folder_of("n", None, {"HOME": "/home/me"}) == Path("/home/me/.local/state/kwire/sql/n")
    assert folder_of("n", str(tmp_path), {}) == tmp_path


def test_topics_are_identifiers_of_the_query() -> None:
    topics = ["orders", "my-topic", "a.b", "Mixed", "we`ird", "never"]
    query = "select * from orders join `my-topic` using (key), `a.b`, mixed, `we``ird` where x = 'no'"
    assert named_in(query, topics) == sorted(set(topics) - {"never"})


def test_client_properties_become_options() -> None:
    brokers = Brokers("h:1", {"sasl.mechanism": "PLAIN", "bootstrap.servers": "x"})
    assert options(brokers) == {"kafka.bootstrap.servers": "h:1", "kafka.sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[PARSE] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1)", "[PARSE] Syntax error at or near 'x'."),
        ("[STREAM_FAILED] Query x terminated with exception: requirement failed", "requirement failed"),
        ("Job aborted\n\n kwire.spark.sink.errors.SinkError: topic x is gone\n at java", "topic x is gone"),
    ],
)
def test_sparks_messages_are_one_line(text: str, line: str) -> None:
    assert reason(Exception(text)) == line
