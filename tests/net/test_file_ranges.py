"""Ranges of files are sent as they are, and given back exactly once, whatever becomes of the connection."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import PATIENCE_S
from kwire.base.doors import Doors, Files, Sockets
from kwire.base.file_range import FileRange
from kwire.log.common.cold_ranges import is_cached
from kwire.net.connection import Connection
from kwire.net.settings import SMALL_RANGE
from tests.net.conftest import OTHER_KEY, Network, request

CONTENT = bytes(range(256)) * 20_000


class Owner:
    def __init__(self) -> None:
        self.users = 0
        self.releases = 0

    def retain(self) -> None:
        self.users += 1

    def release(self) -> None:
        self.users -= 1
        self.releases += 1


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def answer_with(*parts: bytes | FileRange) -> Any:
    def answer(connection: Connection, body: memoryview) -> None:
        size = sum(part.size if isinstance(part, FileRange) else len(part) for part in parts)
        connection.send([struct.pack(">i", size), *parts], size + 4)

    return answer


def sockets(sendfile: Any) -> Doors:
    doors = Sockets()
    doors.sendfile = sendfile
    return Doors(sockets=doors)


def refusing(*_: int) -> int:
    raise OSError(errno.EINVAL, "this file system cannot")


def in_pieces(socket_fd: int, fd: int, position: int, count: int) -> int:
    return os.sendfile(socket_fd, fd, position, min(count, 10_007))


@pytest.mark.parametrize("sendfile", [os.sendfile, None, refusing, in_pieces])
async def test_ranges_and_buffers_arrive_in_order(network: Network, file: int, sendfile: Any) -> None:
    owner = Owner()
    ranges = [FileRange(file, position, size, owner) for position, size in ((5, 100), (1000, 3_000_000), (7, 50_000))]
    network.answers.answer = answer_with(b"head", ranges[0], b"middle", ranges[1], ranges[2], b"tail")
    server = network.serve(doors=sockets(sendfile), send_buffer_bytes=50_000)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    expected = CONTENT[5:105] + b"middle" + CONTENT[1000:3_001_000] + CONTENT[7:50_007]
    assert await client.receive() == b"head" + expected + b"tail"
    assert (owner.users, owner.releases) == (0, 3)


async def test_a_range_that_is_sent_piece_by_piece_keeps_its_connection_active(
    plain_network: Network, file: int
) -> None:
    ticks: list[int] = []

    def sendfile(socket_fd: int, fd: int, position: int, count: int) -> int:
        (connection,) = server.connections
        wire = connection._wire
        ticks.append(wire.tick - connection.active_tick)
        wire.tick += 1
        return os.sendfile(socket_fd, fd, position, min(count, 1000))

    plain_network.answers.answer = answer_with(b"head", FileRange(file, 0, 100_000, Owner()), b"tail")
    server = plain_network.serve(doors=sockets(sendfile))
    client = await plain_network.connect(server)
    await client.send(request(OTHER_KEY))
    assert await client.receive() == b"head" + CONTENT[:100_000] + b"tail"
    assert ticks == [0] * 100


@pytest.mark.parametrize("later", [OSError(errno.EPIPE, "gone"), OSError(errno.EIO, "bad disk"), 0])
async def test_a_range_that_fails_in_the_middle_closes_the_connection(
    plain_network: Network, file: int, later: OSError | int
) -> None:
    positions: list[int] = []

    def sendfile(socket_fd: int, fd: int, position: int, count: int) -> int:
        positions.append(position)
        if len(positions) < 3:
            return os.sendfile(socket_fd, fd, position, 1000)
        if isinstance(later, OSError):
            raise later
        return later

    owner = Owner()
    plain_network.answers.answer = answer_with(b"head", FileRange(file, 0, 100_000, owner), b"tail")
    server = plain_network.serve(doors=sockets(sendfile))
    client = await plain_network.connect(server)
    await client.send(request(OTHER_KEY))
    with pytest.raises(asyncio.IncompleteReadError):
        await client.receive()
    await plain_network.until_left(server)
    assert positions[:3] == [0, 1000, 2000]
    assert (owner.users, owner.releases) == (0, 1)


@pytest.mark.parametrize("size", [SMALL_RANGE, SMALL_RANGE + 1])
async def test_a_range_that_ends_early_closes_the_connection(network: Network, file: int, size: int) -> None:
    owner = Owner()
    network.answers.answer = answer_with(FileRange(file, len(CONTENT) - 10, size, owner))
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    with pytest.raises(asyncio.IncompleteReadError):
        await client.receive()
    assert (owner.users, owner.releases) == (0, 1)


async def test_ranges_of_a_closed_connection_are_given_back_once(network: Network, file: int) -> None:
    owner = Owner()
    ranges = [FileRange(file, 0, 4_000_000, owner) for _ in range(4)]
    network.answers.answer = answer_with(*ranges)
    server = network.serve(send_buffer_bytes=50_000)
    client = await network.connect(server)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    assert owner.users
    client.writer.transport.abort()
    await network.until_left(server)
    assert (owner.users, owner.releases) == (0, 4)


async def test_ranges_of_an_answer_that_comes_too_late_are_given_back(network: Network, file: int) -> None:
    owner = Owner()
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    client.close()
    await network.until_left(server)
    network.answers.slots[0].answer([FileRange(file, 0, 100_000, owner)], 100_000)
    assert (owner.users, owner.releases) == (0, 1)


class ColdFiles(Files):
    """A disk whose content has left the cache until somebody has read it in, on a thread that the test lets run."""

    def __init__(self) -> None:
        self.cold = True
        self.reads: list[tuple[int, int]] = []
        self.may_read = threading.Event()

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags and self.cold:
            raise BlockingIOError(errno.EAGAIN, "not cached")
        return os.preadv(fd, buffers, offset)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.may_read.wait(PATIENCE_S)
        if threading.current_thread() is not threading.main_thread():  # over TLS, ranges are also read to be encrypted
            self.reads.append((offset, size))
        self.cold = False
        return os.pread(fd, size, offset)


async def test_a_range_that_is_not_cached_is_read_by_a_thread_while_others_are_served(
    network: Network, file: int
) -> None:
    files, owner = ColdFiles(), Owner()
    files.RWF_NOWAIT = 8
    server = network.serve(doors=Doors(files=files))
    waiting, other = await network.connect(server), await network.connect(server)
    network.answers.answer = answer_with(b"ab", FileRange(file, 100, 3_000_000, owner), b"yz")
    await waiting.send(request(OTHER_KEY))
    await network.answers.count(1)
    network.answers.answer = None
    await other.send(request(OTHER_KEY, b"quick"))
    assert await other.receive() == b"\0\x01quick"
    assert owner.releases == 0
    files.may_read.set()
    assert await waiting.receive() == b"ab" + CONTENT[100:3_000_100] + b"yz"
    assert sum(size for _, size in files.reads) == 3_000_000
    assert owner.releases == 1


async def test_a_connection_that_ends_while_its_range_is_read_gives_it_back(network: Network, file: int) -> None:
    files, owner = ColdFiles(), Owner()
    files.RWF_NOWAIT = 8
    server = network.serve(doors=Doors(files=files))
    client = await network.connect(server)
    network.answers.answer = answer_with(FileRange(file, 0, 1_000_000, owner))
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    client.close()
    await network.until_left(server)
    assert owner.releases == 1
    files.may_read.set()


async def test_a_disk_that_fails_while_a_range_is_read_closes_the_connection(network: Network, file: int) -> None:
    class Failing(ColdFiles):
        def pread(self, fd: int, size: int, offset: int) -> bytes:
            raise OSError(errno.EIO, "the disk fails")

        def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
            if flags:
                return super().preadv(fd, buffers, offset, flags)
            raise OSError(errno.EIO, "the disk fails")

    def sendfile(*_: int) -> int:
        raise OSError(errno.EIO, "the disk fails")

    files, owner = Failing(), Owner()
    files.RWF_NOWAIT = 8
    server = network.serve(doors=Doors(files=files, sockets=sockets(sendfile).sockets))
    client = await network.connect(server)
    network.answers.answer = answer_with(FileRange(file, 0, 1_000_000, owner))
    await client.send(request(OTHER_KEY))
    await client.reader.readexactly(4)
    assert await client.at_end()
    assert owner.releases == 1


@pytest.mark.parametrize("answer", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_nobody_can_tell_a_range_counts_as_cached(file: int, answer: int) -> None:
    files = ColdFiles()
    part = FileRange(file, 0, 100_000, Owner())
    files.RWF_NOWAIT = 8
    assert not is_cached(files, part)

    def preadv(*_: Any) -> int:
        raise OSError(answer, "unknown flag")

    files.preadv = preadv  # type: ignore[assignment,method-assign]
    assert is_cached(files, part)
    files.RWF_NOWAIT = 0
    assert is_cached(files, part)
