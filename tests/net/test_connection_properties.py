"""However bytes arrive and answers come, requests start in order, within their bounds, and are answered in order."""

from __future__ import annotations

import struct
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.base.doors import Doors
from kwire.base.logging import get_logger
from kwire.net.connection import Connection, ListenerSetup, Slot
from kwire.net.settings import PIPELINE_DEPTH, NetSettings
from kwire.net.wire import Wire
from tests.net.conftest import OTHER_KEY, PIPELINED_KEY, REQUEST_MAX_BYTES, frame, request


class Loop:
    """As much of an event loop as a connection uses; the test says when things happen."""

    def __init__(self) -> None:
        self.readers: dict[int, Any] = {}
        self.writers: dict[int, Any] = {}
        self.soon: list[Any] = []

    def add_reader(self, fd: int, callback: Any) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> bool:
        return self.readers.pop(fd, None) is not None

    def add_writer(self, fd: int, callback: Any) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> bool:
        return self.writers.pop(fd, None) is not None

    def call_soon(self, callback: Any) -> None:
        self.soon.append(callback)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class Socket:
    """Gives out what is in ``incoming``, takes ``room`` bytes."""

    def __init__(self) -> None:
        self.incoming = bytearray()
        self.sent = bytearray()
        self.room = 0

    def fileno(self) -> int:
        return 5

    def recv_into(self, buffer: memoryview) -> int:
        if not self.incoming:
            raise BlockingIOError
        count = min(len(buffer), len(self.incoming))
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, data: bytes) -> int:
        if not self.room:
            raise BlockingIOError
        piece = bytes(data[: self.room])
        self.sent += piece
        self.room -= len(piece)
        return len(piece)

    def sendmsg(self, buffers: list[bytes], _ancillary: object = (), _flags: int = 0) -> int:
        return self.send(b"".join(buffers))

    def close(self) -> None:
        raise AssertionError("closed")


class Answers:
    pipelined_keys = frozenset({PIPELINED_KEY})

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self.pending: list[tuple[Slot, bytes]] = []
        self.at_once: list[bool] = []

    def dispatch(self, connection: Connection, body: memoryview) -> None:
        data = bytes(body)
        self.started.append(data)
        kinds = {pending[1] == PIPELINED_KEY for _, pending in self.pending} | {data[1] == PIPELINED_KEY}
        assert len(self.pending) < PIPELINE_DEPTH
        assert not self.pending or kinds == {True}
        if self.at_once and self.at_once.pop():
            connection.send([frame(data), b""], len(data) + 4)
        else:
            self.pending.append((connection.defer(data[1] == PIPELINED_KEY), data))


def steps(most: int) -> st.SearchStrategy[list[tuple[str, int]]]:
    """What happens to a connection: bytes come, requests are answered, the socket accepts more, a turn is over."""
    step = st.one_of(
        st.tuples(st.just("bytes"), st.integers(1, 500_000)),
        st.tuples(st.just("answer"), st.integers(0, 100)),
        st.tuples(st.just("room"), st.one_of(st.integers(1, 400), st.integers(1, 1_000_000))),
        st.tuples(st.just("turn"), st.just(0)),
    )
    return st.lists(step, max_size=most)


def requests(largest: int, most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """API keys and sizes."""
    return st.lists(st.tuples(st.sampled_from([PIPELINED_KEY, OTHER_KEY]), st.integers(0, largest)), max_size=most)


@settings(max_examples=150, deadline=None)
@given(requests=requests(300_000, 90), steps=steps(120), at_once=st.lists(st.booleans(), max_size=90))
def test_order_and_bounds_hold(
    requests: list[tuple[int, int]], steps: list[tuple[str, int]], at_once: list[bool]
) -> None:
    loop, sock, answers = Loop(), Socket(), Answers()
    answers.at_once = list(at_once)
    wire = Wire(
        loop=cast(Any, loop),
        doors=Doors(),
        settings=NetSettings(),
        log=get_logger("tests.net"),
        on_close=lambda _: None,
    )
    setup = ListenerSetup(answers, REQUEST_MAX_BYTES)
    connection = Connection(wire, sock, setup, "PLAINTEXT", ("a", 1), ("b", 2))
    connection.start()
    bodies = [struct.pack(">hi", key, n) + b"." * size for n, (key, size) in enumerate(requests)]
    stream = b"".join(request(body[1], body[2:]) for body in bodies)
    finish = [("bytes", len(stream)), *[("answer", 0), ("room", 1 << 30), ("turn", 0)] * (len(bodies) + 2)]
    for kind, number in [*steps, *finish]:
        if kind == "bytes":
            sock.incoming += stream[:number]
            stream = stream[number:]
        elif kind == "answer" and answers.pending:
            slot, body = answers.pending.pop(number % len(answers.pending))
            slot.answer([frame(body)], len(body) + 4)
        elif kind == "room":
            sock.room += number
            for callback in list(loop.writers.values()):
                callback()
        elif kind == "turn":
            loop.run_soon()
        while sock.incoming and loop.readers:
            for callback in list(loop.readers.values()):
                callback()
        assert answers.started == bodies[: len(answers.started)]
    assert answers.started == bodies
    assert bytes(sock.sent) == b"".join(frame(body) for body in bodies)
    assert connection.idle
    assert loop.readers and not loop.writers
