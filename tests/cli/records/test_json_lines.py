"""Records as JSON Lines, written and read."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.records.columns import Columns
from kwire.cli.records.json_lines import Parsed, json_lines, parse_line
from kwire.cli.records.outputs import Output, output_to

COLUMNS = Columns(
    "a%d", 1, [5, 6], [10, 11], [None, b"k"], [b'"\xc3\xa9\n', b"\xff"], {1: [("h", b"\0"), ("n", None)]}, 7
)
OBJECTS = [
    {"topic": "a%d", "partition": 1, "offset": 5, "timestamp": 10, "key": None, "value": '"é\n', "headers": []},
    {
        "topic": "a%d",
        "partition": 1,
        "offset": 6,
        "timestamp": 11,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [{"key": "h", "value": "\0"}, {"key": "n", "value": None}],
    },
]


def test_each_record_is_a_line_with_all_fields() -> None:
    lines = json_lines(COLUMNS).decode().splitlines()
    assert [json.loads(line) for line in lines] == OBJECTS
    assert list(json.loads(lines[0])) == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]


BYTES = st.none() | st.binary(max_size=8) | st.text(max_size=8).map(str.encode)
NAMES = st.binary(max_size=4).map(lambda name: name.decode("utf-8", "surrogateescape"))


@given(BYTES, BYTES, st.lists(st.tuples(NAMES, BYTES), max_size=2), st.integers(-1, 2**50))
def test_what_is_written_is_read_again(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    columns = Columns("t", 2, [0], [timestamp], [key], [value], {0: headers} if headers else {}, 1)
    time = None if timestamp < 0 else timestamp
    assert parse_line(json_lines(columns)) == Parsed(key, value, headers, time, 2)


def test_any_json_may_be_a_value() -> None:
    parsed = parse_line(b'{"key": 7, "value": {"name": "\xc3\xa9", "n": [1, true]}}')
    assert (parsed.key, parsed.value) == (b"7", '{"name":"é","n":[1,true]}'.encode())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"vlaue": 1}', 'has the field "vlaue"'),
        (b'{"key": "k"}', 'has no "value"'),
        (b'{"value": {"base64": "%"}}', "base64 cannot be decoded"),
        (b'{"value": {"base64": 7}}', "base64 cannot be decoded"),
        (b'{"value": "\\ud800"}', "half a surrogate pair"),
        (b'{"value": 1, "headers": {}}', "headers that are not an array"),
        (b'{"value": 1, "headers": [{"value": "v"}]}', "headers that are not an array"),
        (b'{"value": 1, "timestamp": "now"}', "has a timestamp that is not a number"),
        (b'{"value": 1, "partition": true}', "has a partition that is not a number"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_line(line)
    assert reason in str(refused.value)


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_documents_are_continued_batch_by_batch(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    for batches in ([], [COLUMNS], [COLUMNS, COLUMNS]):
        output: Output = output_to(sys.stdout.buffer, kind, None)
        for each in batches:
            output.add(each)
        output.close()
        written = capsys.readouterr().out
        assert (yaml.safe_load(written) or []) == OBJECTS * len(batches)
        assert kind == "yaml" or json.loads(written) == OBJECTS * len(batches)


def test_a_table_has_a_row_for_each_record(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_to(sys.stdout.buffer, "table", None)
    output.add(COLUMNS)
    output.close()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"],
        ["1", "5", "1970-01-01T00:00:00.010Z", "-", '"é\\n'],
        ["1", "6", "1970-01-01T00:00:00.011Z", "k", "\\xff"],
    ]
