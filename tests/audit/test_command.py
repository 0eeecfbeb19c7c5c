"""The command line: its statuses, and a line for what cannot be compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.auditing.audits import Audits, Record, Topics
from kwire.cli import main
from kwire.testing import Kwire


@pytest.mark.parametrize(
    ("ends", "line"),
    [
        (["no-such-topic", "another"], "topic another: there is no such topic"),
        (["a"], "name the copy, too"),
        (["a", "b", "--expect", "3"], "--expect goes with --producers"),
        (["a b", "c"], "'a b' is no end: TOPIC, TOPIC@HOST:PORT"),
        (["a@", "c"], "'a@' is no end"),
        (["*", "b"], "one * in the source and one in the copy"),
        (["x*y", "x*y"], "x*y: there is no such topic"),
        (["a@nobody", "b"], "there is no profile nobody"),
        (["/nowhere", "b"], "topic b: there is no such topic"),
        (["a@/nowhere/at/all", "/nowhere"], "/nowhere: there is no such file or folder"),
        (["a", "b", "--identity", "=x"], "'=x' is no field"),
        (["a", "b", "--from", "earliest"], "--from: 'earliest' is no time"),
        (["/tmp", "--producers"], "a table has no producers"),
        (["a", "b", "--html", "/nowhere/r.html"], "/nowhere/r.html: No such file or directory"),
        (["a@localhost:1", "b@localhost:1", "--timeout", "0.2"], "localhost:1: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_compared_is_said_in_a_line(audit: Audits, ends: list[str], line: str) -> None:
    found = audit(*ends)
    assert (found.status, found.row) == (2, {})
    assert line in found.error
    assert len(found.error.splitlines()) == 1


@pytest.mark.parametrize(
    "option", ["--sample=0", "--sample=100%", "--late-after=5", "--memory=12", "--jobs=0", "--examples=-1"]
)
def test_options_that_mean_nothing(option: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "a", "b", option])
    assert ended.value.code == 2


def test_fields_that_an_end_does_not_have(audit: Audits, topics: Topics, broker: Kwire) -> None:
    topic = topics.make([Record(b"1")])
    assert (
        "records have no field 'id': key, value, timestamp, or a path in JSON as $.id"
        in audit(topic, topic, "--identity", "id").error
    )
    assert "partitions and the copy" in audit(topic, topics.make([Record(b"1")], 1), "--order", "partition").error


def test_without_its_libraries_it_could_not_compare(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["audit", "a", "b"]) == 2
    assert "pip install 'kwire[audit]'" in capsys.readouterr().err


def test_the_report_for_people(
    audit: Audits, topics: Topics, broker: Kwire, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source, copy = topics.make([Record(b"1", b"k"), Record(b"2", b"k")]), topics.make([Record(b"1", b"k")])
    command = ["audit", source, copy, "-b", broker.bootstrap_servers, "--jobs", "1", "-q", "--work-dir", str(tmp_path)]
    assert main(command) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"faults found: {source} (2 records) and {copy} (1)"
    assert printed[2].split() == ["missing:", "1", "in", "the", "source", "and", "not", "in", "the", "copy"]
    assert printed[3].split()[-3:] == ["2023-11-14T22:13:20.000Z", "k", "2"]
    assert list(tmp_path.iterdir()) == []
