"""The sequences of producers, through a broker and straight from its files."""

from __future__ import annotations

import pytest

from harness.auditing.audits import Audits, Record, Topics
from harness.processes.brokers import wait_until
from kwire.audit.producers import Sequences
from kwire.cli.records.writing.encoding import Producer, Rows, encode_batch
from kwire.codec.records import parse_header
from kwire.testing import Kwire, KwireProcess


def sequences(*batches: tuple[int, int]) -> Sequences:
    """Batches by their first sequence number and their size."""
    found = Sequences()
    for first, count in batches:
        found.add(parse_header(encode_batch(Rows([b"v"] * count), 0, Producer(5, 0, first))))
    return found


@pytest.mark.parametrize(
    ("batches", "missing", "repeated", "last"),
    [
        ([(0, 3), (3, 2), (5, 1)], 0, 0, 5),
        ([(7, 3), (10, 2)], 0, 0, 11),
        ([(0, 3), (5, 2)], 2, 0, 6),
        ([(0, 3), (0, 3), (3, 1)], 0, 3, 3),
        ([(2**31 - 2, 2), (0, 2)], 0, 0, 1),
        ([(2**31 - 2, 3), (1, 2)], 0, 0, 2),
        ([(2**31 - 2, 1), (0, 2)], 1, 0, 1),
    ],
    ids=["whole", "begins later", "gap", "repeated", "after the last comes 0", "in a batch", "a gap there"],
)
def test_gaps_and_repetitions(batches: list[tuple[int, int]], missing: int, repeated: int, last: int) -> None:
    found = sequences(*batches)
    assert (found.missing, found.repeated, found.last) == (missing, repeated, last)


def test_a_broker_and_its_files_prove_the_same(
    audit: Audits, topics: Topics, broker: Kwire, audited_process: KwireProcess
) -> None:
    topic = topics.make([Record(b"without id")], partitions=1)
    for first in (0, 2):
        topics.write(topic, 0, [Record(b"a"), Record(b"b")], Producer(1001, 0, first))
    topics.write(topic, 0, [Record(b"of the next epoch")], Producer(1001, 1, 0))
    rows = audit(topic, "--producers").row["producers"]
    assert [
        (each["producer_id"], each["epoch"], each["batches"], each["records"], each["last_sequence"]) for each in rows
    ] == [(-1, -1, 1, 1, -1), (1001, 0, 2, 4, 3), (1001, 1, 1, 1, 0)]
    assert all(each["missing"] == each["repeated"] == each["aborted"] == 0 for each in rows)
    found = audit(topic, "--producers", "--expect", "6")
    assert (found.status, found.row["verdict"], found.row["source_records"]) == (0, "equal", 6)
    found = audit(topic, "--producers", "--expect", "7")
    assert (found.status, found.faults) == (1, {"count": 1})
    files = f"{topic}@{audited_process.data_dir}"  # may show less for a moment
    wait_until(
        lambda: audit(files, "--producers").row.get("producers") == rows, 30, "the checkpoint of the high watermark"
    )
