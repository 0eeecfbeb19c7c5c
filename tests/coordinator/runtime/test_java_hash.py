"""Java's string hash, string length and hash map order."""

from __future__ import annotations

import pytest

from kwire.coordinator.runtime.java_hash import hash_map_order, partition_for, string_hash, utf16_length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -2147483648),
        ("Gruppe-ä", 738167026),
        ("\U0001f600", 1772899),
    ],
)
def test_string_hash_is_javas(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_the_smallest_hash_goes_to_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_partition_numbers_are_those_of_kafka() -> None:
    # From the log directories of Apache Kafka 4.3 with four partitions.
    assert [partition_for(group, 4) for group in ("", "gs", "gnp", "gnt", "gd", "h1", "neg")] == [0, 0, 1, 1, 1, 1, 0]


def test_length_counts_utf16_units() -> None:
    assert [utf16_length(text) for text in ("abc", "äöü", "\U0001f600")] == [3, 3, 2]


def test_hash_map_order_is_javas() -> None:
    # The output of a java.util.HashMap.
    assignors = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert hash_map_order(assignors) == ["sticky", "range", "roundrobin", "cooperative-sticky"]
    grown = [f"p{number * 7919}" for number in range(14)]
    expected = "0 15838 31676 55433 87109 102947 63352 47514 95028 39595 79190 7919 71271 23757"
    assert hash_map_order(grown) == [f"p{number}" for number in expected.split()]
