"""Types of keys and values, and what does not fit them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kwire.sql.topics.contents import JsonCheck, PlainContents, kind_of

JSON = [b'{"a": 1}', b"[1]", b"3", b'"text"', b"null", None]


@pytest.fixture(scope="module")
def check() -> JsonCheck:
    return JsonCheck()


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        ([], "json"),
        ([binary(None)], "json"),
        ([binary(*JSON)], "json"),
        ([binary(*JSON), binary("grün".encode())], "varchar"),
        ([binary(b"")], "varchar"),
        ([binary(b"\xff"), binary(*JSON)], "blob"),
        ([binary(b"text"), binary(b"\x00\xff")], "blob"),
    ],
)
def test_the_type_is_that_of_all_samples(check: JsonCheck, samples: list[pa.Array], kind: str) -> None:
    assert kind_of(samples, check) == kind


def test_what_does_not_fit_is_null_and_counted(check: JsonCheck) -> None:
    contents = PlainContents("json", check)
    mixed = binary(b'{"a": 1}', b"{", None, b"\xff", b"2", b"")
    assert contents.typed(mixed).to_pylist() == ['{"a": 1}', None, None, None, "2", None]
    assert contents.misfits == 3
    texts = PlainContents("varchar", check)
    assert texts.typed(mixed).to_pylist() == ['{"a": 1}', "{", None, None, "2", ""]
    assert texts.misfits == 1
    blobs = PlainContents("blob", check)
    assert blobs.typed(mixed) is mixed
    assert blobs.misfits == 0
