"""Every client produces with every compression type, and every client consumes what every other produced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from compat_tests.clients.drivers import CLIENTS, CODECS, Driver, Got, Sent
from harness.observations import Observations
from harness.processes.brokers import Broker

T0 = 1_760_000_000_000  # a fixed time, so that observations are equal on both brokers


def noise(size: int, seed: str = "") -> bytes:
    """Bytes that no codec compresses, the same in every run."""
    blocks = (hashlib.sha256(f"{seed}{index}".encode()).digest() for index in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def sample(partition: int, driver: Driver) -> list[Sent]:
    """Records with null, empty, repeated and large keys, values and headers."""
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (None, b"null key", ()),
        (b"tombstone", None, ()),
        (b"empty-value", b"", ()),
        ("schlüssel".encode(), "żółć ✓".encode(), (("h", b"1"), ("h", b"2"), ("ünï", b"\xc3\xbc"))),
        (b"headers", b"an empty header", (("empty", b""),)),
        (b"null header", b"a null header", (("null", None),)),
        (b"large", noise(40_000), ()),
    ]
    shapes += [(f"k{index}".encode(), b"the same words again and again " * 20, ()) for index in range(10)]
    times = [T0 + 1000 * index if driver.can_set_timestamp else None for index in range(len(shapes))]
    records = [Sent(partition, *shape, time) for shape, time in zip(shapes, times, strict=True)]
    return [record for record in records if can_say(driver, record)]


def can_say(driver: Driver, record: Sent) -> bool:
    """Whether the client can write the record: kcat has no empty values and headers, some clients no null headers."""
    if driver.name == "kcat" and (record.value == b"" or ("empty", b"") in record.headers):
        return False
    return driver.can_set_null_header or ("null", None) not in record.headers


def records_for(driver: Driver) -> list[Sent]:
    """One partition for each codec."""
    return [record for index in range(len(CODECS)) for record in sample(index, driver)]


Written = dict[str, tuple[str, list[Sent]]]


@pytest.fixture(scope="session")
def written(broker_kind: str) -> Written:
    """Client -> (topic, records) that its producer wrote to this broker, once per session."""
    return {}


def write_once(driver: Driver, broker: Broker, make_topic: Callable[..., str], written: Written) -> None:
    if driver.name in written:
        return
    topic = make_topic(len(CODECS), name=f"matrix-{driver.name}")
    records = records_for(driver)
    for index, codec in enumerate(CODECS):
        mine = [record for record in records if record.partition == index]
        placed = driver.produce(broker.bootstrap, topic, mine, codec)
        assert placed in ([], [(index, offset) for offset in range(len(mine))])
    written[driver.name] = (topic, records)


def as_read(records: list[Sent], got: list[Got]) -> list[Got]:
    """The records to read, in order; where no timestamp was set, the one the client chose."""
    expected = []
    offsets: dict[int, int] = {}
    for record, seen in zip(records, got, strict=True):
        offset = offsets.get(record.partition, 0)
        offsets[record.partition] = offset + 1
        time = seen.timestamp if record.timestamp is None else record.timestamp
        expected.append(Got(record.partition, offset, record.key, record.value, record.headers, time, 0))
    return expected


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_what_one_client_writes_with_every_codec_another_reads(
    broker: Broker,
    make_topic: Callable[..., str],
    driver: Callable[[str], Driver],
    written: Written,
    observe: Observations,
    writer: str,
    reader: str,
) -> None:
    write_once(driver(writer), broker, make_topic, written)
    topic, records = written[writer]
    got = driver(reader).consume(broker.bootstrap, topic, range(len(CODECS)))
    assert len(got) == len(records)
    assert got == as_read(records, got)
    if driver(writer).can_set_timestamp:
        observe("records", [list(one) for one in got])
