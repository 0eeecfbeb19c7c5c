"""What stands before a payload."""

from __future__ import annotations

import pytest

from kwire.schemas import DecodeError, wire


def test_the_header_has_a_zero_byte_and_the_id() -> None:
    assert wire.frame(258, b"body") == b"\x00\x00\x00\x01\x02body"
    assert wire.split(b"\x00\x00\x00\x01\x02body") == (258, b"body")


@pytest.mark.parametrize("payload", [b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x", b'{"a": 1}'])
def test_a_payload_without_header_is_refused(payload: bytes) -> None:
    assert not wire.is_framed(payload)
    with pytest.raises(DecodeError, match="no schema id"):
        wire.split(payload)


@pytest.mark.parametrize("indexes", [(0,), (1,), (1, 0), (3, 2, 1), (200,)])
def test_indexes_of_a_message_come_back(indexes: tuple[int, ...]) -> None:
    assert wire.split_indexes(wire.join_indexes(indexes, b"body")) == (indexes, b"body")


def test_the_usual_indexes_take_one_byte() -> None:
    assert wire.join_indexes((0,), b"body") == b"\x00body"


@pytest.mark.parametrize("body", [b"", b"\x02", b"\x80\x80\x80\x80\x80\x80", b"\xff\x01", b"\x01", b"\x02\x01"])
def test_indexes_that_cannot_be_are_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        wire.split_indexes(body)
