"""What `kwire produce` makes of its input: records, partitions and batches."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.records.writing.encoding import RECORDS_MAX, Rows
from kwire.cli.records.writing.gathering import BATCH_BYTES_MAX, Gathering
from kwire.cli.records.writing.parsing import Additions, Batch, json_parser, text_parser
from kwire.cli.records.writing.partitioner import Partitioner, murmur2
from kwire.cli.records.writing.sources import pieces


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # those of Kafka's own test (org.apache.kafka.common.utils.UtilsTest)
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafka_does(key: str, hashed: int) -> None:
    assert murmur2(key.encode()) == hashed & 0xFFFFFFFF


def test_records_without_keys_stay_together() -> None:
    partitioner = Partitioner(5)
    first = partitioner.sticky
    assert partitioner.partitions([None, b"foobar", None, b"foobar"]) == [first, 1356151166 % 5, first, 1356151166 % 5]
    partitioner.turn()
    assert partitioner.sticky != first
    alone = Partitioner(1)
    alone.turn()
    assert alone.sticky == 0


def taken(gathering: Gathering, rows: Rows) -> list[tuple[int, Rows]]:
    gathering.add(Batch(rows))
    gathering.end()
    full, gathering.full = gathering.full, []
    return full


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(0, 400_000)), max_size=30), st.booleans())
def test_each_record_is_in_one_batch_in_order(records: list[tuple[bytes | None, int]], small: bool) -> None:
    values = [b"%d:" % index + b"x" * (0 if small else size) for index, (_, size) in enumerate(records)]
    keys = [key for key, _ in records]
    full = taken(Gathering(Partitioner(3), None), Rows(values, keys))
    assert sorted(value or b"" for _, rows in full for value in rows.values) == sorted(values)
    for _, rows in full:
        assert rows.values == sorted(rows.values, key=lambda value: int((value or b"").split(b":")[0]))
        assert len(rows.values) == 1 or sum(map(len, rows.values)) <= BATCH_BYTES_MAX
    by_key = {
        key: {partition for partition, rows in full if key in (rows.keys or ())} for key in keys if key is not None
    }
    assert all(len(partitions) == 1 for partitions in by_key.values())


def test_a_batch_has_so_many_records_at_most() -> None:
    full = taken(Gathering(Partitioner(1), None), Rows([b""] * (2 * RECORDS_MAX + 1)))
    assert [len(rows.values) for _, rows in full] == [RECORDS_MAX, RECORDS_MAX, 1]


def test_all_records_go_to_the_partition_that_was_named() -> None:
    assert taken(Gathering(Partitioner(3), 2), Rows([b"a", b"b"], [b"x", b"y"])) == [
        (2, Rows([b"a", b"b"], [b"x", b"y"]))
    ]


def test_a_separator_splits_keys_from_values() -> None:
    parse = text_parser(b"::", Additions())
    assert parse([b"a::b::c", b"d", b"::e", b"f::"]).rows == Rows([b"b::c", b"d", b"e", b""], [b"a", None, b"", b"f"])


def test_options_add_to_every_record() -> None:
    additions = Additions(b"k", [("h", b"v")], empty_is_null=True)
    assert text_parser(None, additions)([b"a", b""]).rows == Rows([b"a", None], [b"k", b"k"], [[("h", b"v")]] * 2)
    parsed = json_parser(additions, keep_partitions=False)([b'{"key": "x", "value": ""}', b"", b'{"value": null}'])
    assert parsed.rows == Rows([None, None], [b"x", b"k"], [[("h", b"v")]] * 2, [None, None])


def test_a_wrong_line_is_named_by_its_number() -> None:
    parse = json_parser(Additions(), keep_partitions=True)
    assert parse([b'{"value": "a", "partition": 3}', b""]).partitions == [3]
    with pytest.raises(ValueError, match="line 4 is not JSON"):
        parse([b'{"value": "b"}', b"{"])


@pytest.mark.parametrize(
    ("content", "delimiter", "records"),
    [
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\n\nb", b"\n", [b"a", b"", b"b"]),
        (b"", b"\n", []),
        (b"a--b-c--", b"--", [b"a", b"b-c"]),
        (b"x" * 3_000_000 + b"\n" + b"y" * 2_000_000, b"\n", [b"x" * 3_000_000, b"y" * 2_000_000]),
        (b"x" * 1_048_575 + b"--" + b"y", b"--", [b"x" * 1_048_575, b"y"]),
    ],
)
async def test_files_are_read_in_whole_records(
    content: bytes, delimiter: bytes, records: list[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with file.open("rb", buffering=0) as opened:
        assert [record async for some in pieces(opened, delimiter, 1) for record in some] == records
    assert [record async for some in pieces(BytesIO(content), delimiter, 1) for record in some] == records


async def test_a_pipe_that_is_silent_gives_an_empty_piece() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb")
    file = os.fdopen(reading, "rb", buffering=0)
    found = pieces(file, b"\n", 0.01)
    assert [await anext(found), await anext(found)] == [[b"a"], []]
    os.write(writing, b"c\n")
    os.close(writing)
    assert [each async for each in found] == [[b"bc"]]
    file.close()
