"""A topic and its copy: each fault is found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.names import Names
from harness.auditing.audits import FIRST_MS, Audits, Record, Topics
from harness.auditing.planted_faults import KINDS, Planted
from harness.processes.brokers import Broker

SOURCE = [
    Record(b"value %d" % number, b"key %d" % (number % 6), number % 2, timestamp=FIRST_MS + 1000 * number)
    for number in range(60)
]
A, B = (Record(b"once", b"a", 0), Record(b"once", b"b", 1))
TWICE = [*SOURCE, A, A, A]


def swapped(records: list[Record], first: int, second: int) -> list[Record]:
    found = list(records)
    found[first], found[second] = found[second], found[first]
    return found


def replaced(records: list[Record], at: int, **fields: Any) -> list[Record]:
    return [*records[:at], records[at]._replace(**fields), *records[at + 1 :]]


@pytest.mark.parametrize("options", [[], ["--order", "key"], ["--timestamps"], ["--ignore-headers"]], ids=str)
def test_equal_topics(audit: Audits, topics: Topics, options: list[str]) -> None:
    found = audit(topics.make(TWICE), topics.make(TWICE), *options)
    assert (found.status, found.row["verdict"], found.faults) == (0, "equal", {})
    assert (found.row["source_records"], found.row["copy_records"]) == (63, 63)


@pytest.mark.parametrize(
    ("copy", "faults"),
    [
        (SOURCE[:20] + SOURCE[21:], {"missing": 1}),
        (SOURCE[:-1], {"missing": 1}),
        ([*SOURCE, SOURCE[5]], {"duplicate": 1}),
        ([*SOURCE, *SOURCE], {"duplicate": 60}),
        ([*SOURCE, A], {"unexpected": 1}),
        (replaced(SOURCE, 7, value=b"valuE 7"), {"changed": 1}),
        (replaced(SOURCE, 7, value=None), {"changed": 1}),
        (replaced(SOURCE, 7, value=b""), {"changed": 1}),
        (replaced(SOURCE, 7, key=b"another key"), {"changed": 1}),
        (replaced(SOURCE, 7, key=None), {"changed": 1}),
        (replaced(SOURCE, 0, value=b"the first"), {"changed": 1}),
        (replaced(SOURCE, 7, headers=(("h", b"1"),)), {"changed": 1}),
        (replaced(SOURCE, 7, partition=0), {"misplaced": 1}),
        (swapped(SOURCE, 10, 12), {"reordered": 1}),
        (swapped(SOURCE, 10, 22), {"reordered": 2}),
        ([*SOURCE[1:11:2], *SOURCE[:1], *SOURCE[2:11:2], *SOURCE[11:]], {}),
        (
            [*swapped(SOURCE, 10, 12)[1:], A, SOURCE[30]],
            dict.fromkeys(("missing", "reordered", "unexpected", "duplicate"), 1),
        ),
        ([], {"missing": 60}),
    ],
    ids=[
        *("one lost", "the last lost", "one doubled", "all doubled", "one too many", "a byte changed", "a value gone"),
        *("a value emptied", "a key changed", "a key gone", "the first changed", "a header added", "moved elsewhere"),
        *("a pair swapped", "far apart swapped", "between partitions there is no order", "everything", "nothing"),
    ],
)
def test_what_is_wrong_is_found_and_nothing_else(
    audit: Audits, topics: Topics, copy: list[Record], faults: dict[str, int]
) -> None:
    found = audit(topics.make(SOURCE), topics.make(copy))
    assert found.faults == faults, found
    assert found.status == int(bool(faults))
    assert found.row["verdict"] == ("faults found" if faults else "equal")


@pytest.mark.parametrize(
    ("source", "copy", "faults"),
    [
        ([A, A, A], [A, A], {"missing": 1}),
        ([A, A], [A, A, A], {"duplicate": 1}),
        ([A, B, A, B], [B, A, A, B], {"reordered": 0}),
        ([A._replace(partition=1), A, A], [A._replace(partition=1), A], {"missing": 1}),
    ],
    ids=str,
)
def test_equal_records_are_counted(
    audit: Audits, topics: Topics, source: list[Record], copy: list[Record], faults: dict[str, int]
) -> None:
    found = audit(topics.make(source), topics.make(copy))
    assert found.faults == {kind: count for kind, count in faults.items() if count}


def test_records_without_keys_that_were_changed_are_found_by_their_neighbours(audit: Audits, topics: Topics) -> None:
    source = [Record(b"value %d" % number, None, number % 2) for number in range(40)]
    copy = replaced(replaced(source, 0, value=b"new"), 21, value=b"newer")
    found = audit(topics.make(source), topics.make(copy))
    assert found.faults == {"changed": 2}
    assert [each["copy"]["value"] for each in found.row["examples"]] == ["new", "newer"]


def test_other_partitions_keep_the_order_of_keys_only(audit: Audits, topics: Topics) -> None:
    copy = [each._replace(partition=(each.partition + 1) % 3) for each in SOURCE]
    wrong = swapped(copy, 10, 16)  # both of key 4
    right = swapped(copy, 10, 12)
    source = topics.make(SOURCE)
    assert audit(source, topics.make(right, partitions=3)).faults == {}
    found = audit(source, topics.make(wrong, partitions=3))
    assert (found.faults, found.row["order"]) == ({"reordered": 1}, "key")


def test_an_identity_tells_versions_of_a_record(audit: Audits, topics: Topics) -> None:
    source = [Record(b'{"id": %d, "amount": 1.0, "note": "a"}' % number, b"k") for number in range(20)]
    copy = [Record(b'{"amount": 1, "number": %d}' % number, b"other") for number in range(20)]
    copy[3] = Record(b'{"amount": 2, "number": 3}', b"other")
    names = ["--identity", "$.id=$.number", "--compare", "$.amount"]
    found = audit(topics.make(source), topics.make(copy), *names)
    assert (found.faults, found.row["compared"]) == ({"changed": 1}, ["$.id = $.number", "$.amount"])
    assert found.row["examples"][0]["copy"]["value"] == '{"amount": 2, "number": 3}'
    found = audit(topics.make(source), topics.make(copy[:10] + copy[11:] + copy[:1]), *names, "--order", "key")
    assert found.faults == {"changed": 1, "missing": 1, "duplicate": 1}
    found = audit(topics.make(source), topics.make(swapped(copy, 8, 9)), *names, "--order", "key")
    assert found.faults == {"changed": 1, "reordered": 1}


def test_late_records_and_those_that_may_be_missing(audit: Audits, topics: Topics) -> None:
    copy = [
        each._replace(timestamp=each.timestamp + (90_000 if number == 4 else 10)) for number, each in enumerate(SOURCE)
    ]
    source = topics.make(SOURCE)
    assert audit(source, topics.make(copy)).faults == {}
    assert audit(source, topics.make(copy), "--late-after", "1m").faults == {"late": 1}
    assert audit(source, topics.make(copy), "--timestamps").faults == {"changed": 60}
    found = audit(source, topics.make(SOURCE[:-1]), "--grace", "10000d")
    assert (found.status, found.row["pending"]) == (0, 1)


def test_only_records_of_a_time(audit: Audits, topics: Topics) -> None:
    span = ["--from", f"@{FIRST_MS + 10_000}", "--until", f"@{FIRST_MS + 20_000}"]
    found = audit(topics.make(SOURCE), topics.make(SOURCE[4:-4]), *span)
    assert (found.status, found.row["source_records"]) == (0, 10)


def test_a_sample_never_says_equal(audit: Audits, topics: Topics) -> None:
    source = topics.make(SOURCE)
    found = audit(source, topics.make(SOURCE), "--sample", "50%")
    assert (found.status, found.row["verdict"]) == (0, "no fault in the sample")
    assert "if 5 or more keys had faults" in found.row["confidence"]
    assert audit(source, topics.make([]), "--sample", "99%").row["verdict"] == "faults found"


def test_windows_partitions_and_keys_say_where_the_faults_are(audit: Audits, topics: Topics) -> None:
    copy = [each for number, each in enumerate(SOURCE) if number not in (10, 16, 41)]
    found = audit(topics.make(SOURCE), topics.make(copy), "--window", "20s").row
    assert [(each["source_records"], each["copy_records"], each["faults"]) for each in found["windows"]] == [
        (20, 18, {"missing": 2}),
        (20, 20, {}),
        (20, 19, {"missing": 1}),
    ]
    assert [each["faults"] for each in found["partitions"]] == [{"missing": 2}, {"missing": 1}]
    assert found["keys"] == [{"key": "key 4", "faults": 2}, {"key": "key 5", "faults": 1}]


@pytest.mark.parametrize("keys", [50, 0], ids=["keys", "no keys"])
def test_every_planted_fault_and_no_other(audit: Audits, topics: Topics, broker: Broker, keys: int) -> None:
    planted = Planted(8000, each=3, partitions=2, keys=keys, batch=200)
    source, copy = topics.make([]), topics.make([])
    planted.write(broker.bootstrap, source, copy)
    found = audit(source, copy, "--examples", "9", "--memory", "256")
    assert found.faults == dict.fromkeys(sorted(KINDS), 3)
    values = {(each["kind"], (each["source"] or each["copy"])["value"]) for each in found.row["examples"]}
    for each in planted.faults():
        offset = each.offset + (each.kind == "reordered")
        assert (each.kind, f"{each.partition}:{offset:012}") in values


def test_a_cluster_and_its_mirror(
    audit: Audits, topics: Topics, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    """A topic that the mirror does not have is missing as a whole."""
    prefix = new_name("mirrored")
    for name in (f"{prefix}-0", f"{prefix}-1", f"{prefix}-2", f"a.{prefix}-0", f"a.{prefix}-1"):
        topics.write(make_topic(name=name), 0, [Record(name.rpartition("-")[2].encode(), b"k")])
    found = audit(f"{prefix}*", f"a.{prefix}*@{broker.bootstrap}")
    assert [(each["source"], each["copy"], each["faults"]) for each in found.row["rows"]] == [
        (f"{prefix}-0", f"a.{prefix}-0@{broker.bootstrap}", {}),
        (f"{prefix}-1", f"a.{prefix}-1@{broker.bootstrap}", {}),
        (f"{prefix}-2", f"a.{prefix}-2@{broker.bootstrap}", {"missing": 1}),
    ]
    assert found.status == 1
