"""Ranges of files over TLS: whatever the socket accepts and the file gives, what arrives is what was accepted."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.net.tls import (
    PIECE_BYTES,
    RECORD_BYTES,
    SEND_BYTES,
    TAKEN_MAX,
    UNSENT_LIMIT,
    RecordBuffers,
    TlsError,
)
from tests.net.tls.test_handshakes import socket_and_peer

FILE = b"".join(number.to_bytes(4, "big") for number in range(3 * TAKEN_MAX // 4))
BUFFERS = RecordBuffers()

near_the_limits = st.builds(
    lambda limit, difference: max(1, limit + difference),
    st.sampled_from((1, RECORD_BYTES, PIECE_BYTES, SEND_BYTES, 2 * SEND_BYTES, TAKEN_MAX, 2 * TAKEN_MAX)),
    st.integers(-3, 3),
)
sizes = st.one_of(near_the_limits, st.integers(1, 2 * TAKEN_MAX))


def reading(counts: Sequence[int] = ()) -> Callable[[int, Sequence[memoryview], int], int]:
    """A `preadv` that reads at most so many bytes each time; after that, all."""
    left = list(counts)

    def preadv(fd: int, buffers: Sequence[memoryview], position: int) -> int:
        assert fd == 7
        (buffer,) = buffers
        data = FILE[position : position + len(buffer)]
        if left:
            data = data[: left.pop(0)]
        buffer[: len(data)] = data
        return len(data)

    return preadv


@settings(max_examples=80, deadline=None)
@given(
    position=st.one_of(st.just(0), st.integers(0, TAKEN_MAX)),
    size=sizes,
    rooms=st.lists(sizes, max_size=6),
    counts=st.lists(sizes, max_size=6),
    header=st.integers(0, 100),
    written=st.sampled_from((1 << 20, RECORD_BYTES, 5000)),
)
def test_what_is_accepted_arrives_in_order(
    position: int, size: int, rooms: list[int], counts: list[int], header: int, written: int
) -> None:
    tls, peer, sock = socket_and_peer(BUFFERS)
    write, preadv = tls._write, reading(counts)
    tls._write = lambda data: write(data[:written])
    sock.room = 1 << 30 if not rooms else 0
    accepted = 0
    received = b""
    before = b"." * header
    if header:
        assert tls.sendmsg((before,), (), 1) == header
    while accepted < size:
        try:
            count = tls.sendfile(preadv, 7, position + accepted, size - accepted)
            assert 0 < count <= min(size - accepted, TAKEN_MAX)
            accepted += count
        except BlockingIOError:
            assert tls.full
        assert tls.unsent <= UNSENT_LIMIT
        assert tls.full == bool(tls.unsent)
        received += peer.decrypt(bytes(sock.sent))
        sock.sent.clear()
        assert before + FILE[position : position + accepted] == received or tls.full
        sock.room = sock.room + rooms.pop(0) if rooms else 1 << 30
    sock.room = 1 << 30
    assert tls.push()
    received += peer.decrypt(bytes(sock.sent))
    assert received == before + FILE[position : position + size]


def test_the_end_of_a_file_is_no_bytes() -> None:
    tls, peer, sock = socket_and_peer(BUFFERS)
    assert tls.sendfile(reading(), 7, len(FILE) - 10, 20) == 10
    assert tls.sendfile(reading(), 7, len(FILE), 20) == 0
    assert peer.decrypt(bytes(sock.sent)) == FILE[-10:]


def test_a_disk_that_fails_in_the_middle_does_so_after_what_was_accepted() -> None:
    tls, peer, sock = socket_and_peer(BUFFERS)
    read = reading()

    def failing(fd: int, buffers: Sequence[memoryview], position: int) -> int:
        if position >= SEND_BYTES:
            raise OSError(errno.EIO, "I/O error")
        return read(fd, buffers, position)

    assert tls.sendfile(failing, 7, 0, TAKEN_MAX) == SEND_BYTES
    assert peer.decrypt(bytes(sock.sent)) == FILE[:SEND_BYTES]
    with pytest.raises(OSError, match="I/O error"):
        tls.sendfile(failing, 7, SEND_BYTES, TAKEN_MAX)


def test_after_a_failure_of_openssl_nothing_is_sent() -> None:
    tls, _, sock = socket_and_peer(BUFFERS)
    sock.incoming += b"\x17\x03\x03\x00\x20" + bytes(32)
    with pytest.raises(OSError, match="decryption failed"):
        tls.recv_into(memoryview(bytearray(100)))
    sock.sent.clear()
    with pytest.raises(TlsError):
        tls.sendfile(reading(), 7, 0, 1000)
    assert not sock.sent
