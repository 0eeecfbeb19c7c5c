"""Filters of `kwire consume`."""

from __future__ import annotations

import json
import sys

import pytest

from kwire.cli.records.columns import Columns
from kwire.cli.records.filters import _condition, header_filter, json_filter, key_filter, value_filter

VALUES = [
    {"user": {"id": 7, "name": "Ada"}, "items": [{"price": 5}, {"price": 12.5}], "a.b": True},
    {"user": {"id": 70, "name": "Grace"}, "items": [], "none": None},
    [1, 2, 3],
]


def columns(*values: bytes | None) -> Columns:
    count = len(values)
    return Columns("t", 0, range(count), [0] * count, [b"key-%d" % i for i in range(count)], values, {}, count)


DOCUMENTS = columns(*(json.dumps(value).encode() for value in VALUES), b"no JSON", None, b"[" * 100_000)


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("$.user", [0, 1]),
        ("$.user.id=7", [0]),
        ("$.user.id!=7", [1]),
        ("$.user.name~^G", [1]),
        ("$.user.name = Ada", [0]),
        ("$.items[0].price", [0]),
        ("$.items[*].price>10", [0]),
        ("$.items[*].price<=4", []),
        ("$['a.b']=true", [0]),
        ('$["user"].id>=8', [1]),
        ("$.none", []),
        ("$[2]=3", [2]),
        ("$[7]", []),
        ("$[*]<2", [2]),
        ("$", [0, 1, 2]),
    ],
)
def test_values_are_chosen_by_a_path_into_json(text: str, passing: list[int]) -> None:
    assert list(json_filter(text)(DOCUMENTS)) == passing


@pytest.mark.parametrize("text", ["", "$user", "$.a[x]", "$.a>x", "$.a~(", "$.a b"])
def test_a_wrong_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        json_filter(text)


def test_keys_and_values_are_chosen_by_regular_expressions() -> None:
    assert list(key_filter("-[02]$")(columns(b"a", b"b", b"c"))) == [0, 2]
    assert list(value_filter("é")(columns("café".encode(), b"caf\xe9", None))) == [0]
    with pytest.raises(ValueError, match="is not a regular expression"):
        key_filter("(")


def test_headers_are_chosen_by_name_and_value() -> None:
    some = columns(b"", b"", b"", b"")
    some.headers = {0: [("trace", b"abc")], 1: [("trace", None)], 3: [("x", b"abc"), ("trace", b"b")]}
    assert list(header_filter("trace")(some)) == [0, 1, 3]
    assert list(header_filter("trace=^a")(some)) == [0]
    assert list(header_filter("trace=b")(some)) == [0, 3]


@pytest.mark.parametrize(("short", "long"), [("user.id", "$.user.id"), ("[0]>1", "$[0]>1"), ("name=Ada", "$.name=Ada")])
def test_the_root_of_a_path_may_be_left_out(short: str, long: str) -> None:
    assert _condition(short) == _condition(long)


AWKWARD = columns(
    *(
        each.encode("utf-8", "surrogatepass")
        for each in (
            '{"id": 5, "name": "Ada"}',
            r'{"\u0069d": 5, "name": "\u0041da"}',
            '{"id": 5.0}',
            '{"id": 123456789012345678901}',
            '{"id": 1e999}',
            '{"id": NaN}',
            '{"id": -0}',
            r'{"id": "x\"y"}',
            '{"id": "\ud800"}',
            '{"id": [123456789012345678901]}',
            '{"other": 5}',
        )
    ),
    '{"id": 5}'.encode("utf-16"),
    b"\xef\xbb\xbf" + b'{"id": 5}',
)


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("id=5", [0, 1, 11, 12]),
        ("id>4", [0, 1, 2, 3, 4, 11, 12]),
        ("id>=123456789012345600000", [3, 4]),
        ("id=123456789012345678901", [3]),
        ("id=1.2345678901234568e+20", []),
        ("id=[123456789012345678901]", [9]),
        ("id=Infinity", [4]),
        ("id=NaN", [5]),
        ("id=0", [6]),
        ('id=x"y', [7]),
        ("name=Ada", [0, 1]),
        ("id", [*range(10), 11, 12]),
        ("id!=5", [*range(2, 10)]),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_not_parsed_and_the_faster_parser_make_no_difference(
    text: str, passing: list[int], fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setitem(sys.modules, "orjson", None)
    assert json_filter(text)(AWKWARD) == passing
