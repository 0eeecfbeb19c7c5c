"""The campaign on real processes (`campaigns/chaos`): its plan of faults, and that its checks find what is wrong with a
history. The runs themselves are in compat_tests."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from campaigns.chaos.checks import check_history, different_replicas
from campaigns.chaos.faults import kinds_for, plan
from campaigns.chaos.history import Writer, counts, merge

FINAL = {0: {0: 1, 1: 2, 2: 10, 4: 20, 6: 3}, 1: {0: 11, 2: 12}}
COMMITTED = {0: {0: 1, 1: 2, 2: 10, 6: 3}, 1: {0: 11, 2: 12}}
COPIES = {0: {0: 1, 1: 2, 4: 10, 7: 3}, 1: {2: 11, 5: 12}}


def send(value: int, partition: int, offset: int | None) -> list[dict[str, Any]]:
    common = {"process": "p1.1", "f": "send", "value": value, "partition": partition}
    end = {"type": "info"} if offset is None else {"type": "ok", "offset": offset}
    return [{**common, "type": "invoke"}, {**common, **end}]


def transaction(
    name: str, sent: list[list[int]], read: list[int], wanted: str, end: str = "ok"
) -> list[dict[str, Any]]:
    common = {"process": "t1.1", "f": "txn", "txn": name, "sent": sent}
    return [{**common, "type": "invoke"}, {**common, "type": end, "read": read, "wanted": wanted}]


def poll(name: str, isolation: str, *records: tuple[int, int, int]) -> dict[str, Any]:
    return {"process": name, "f": "poll", "type": "ok", "name": name, "isolation": isolation, "records": list(records)}


def good() -> dict[str, Any]:
    """A small run in which nothing is wrong."""
    everything = [(partition, offset, value) for partition, log in FINAL.items() for offset, value in log.items()]
    committed = [(partition, offset, value) for partition, log in COMMITTED.items() for offset, value in log.items()]
    events = [
        *send(1, 0, 0),
        *send(2, 0, 1),
        *transaction("a", [[10, 0], [11, 1]], [1], "commit"),
        *transaction("b", [[20, 0]], [], "abort"),
        *transaction("c", [[12, 1]], [10], "commit", end="info"),
        *send(3, 0, None),
        poll("c1", "read_uncommitted", *everything[:3]),
        poll("c1", "read_uncommitted", *everything[3:]),
        poll("c2", "read_committed", *committed),
    ]
    parts = {"events": events, "final": FINAL, "committed": COMMITTED, "copies": COPIES}
    return copy.deepcopy(parts)


def lose(run: dict[str, Any]) -> None:
    for log in (run["final"], run["committed"], run["copies"]):
        log[0].pop(1)
    run["events"] = [event for event in run["events"] if event["f"] != "poll"]


def lose_a_part(run: dict[str, Any]) -> None:
    run["committed"][1].pop(0)


def repeat(run: dict[str, Any]) -> None:
    run["final"][0][7] = run["committed"][0][7] = run["copies"][0][8] = 2


def move(run: dict[str, Any]) -> None:
    for log in (run["final"], run["committed"]):
        log[0][1], log[0][2] = 10, 2


def swap(run: dict[str, Any]) -> None:
    for log in (run["final"], run["committed"]):
        log[0][0], log[0][1] = 2, 1
    for event in run["events"]:
        event.pop("offset", None)
        if event["f"] == "send" and event["type"] == "ok":
            event["offset"] = -1


def read_again(run: dict[str, Any]) -> None:
    run["events"].append(poll("c1", "read_uncommitted", (0, 2, 10)))


def read_over(run: dict[str, Any]) -> None:
    run["events"][-1]["records"].pop(1)


def stop_reading(run: dict[str, Any]) -> None:
    run["events"][-1]["records"].pop()


def read_what_was_aborted(run: dict[str, Any]) -> None:
    run["events"].append(poll("c3", "read_committed", *run["events"][-1]["records"][:3], (0, 4, 20)))


def keep_what_was_aborted(run: dict[str, Any]) -> None:
    run["committed"][0][4] = 20


def copy_twice(run: dict[str, Any]) -> None:
    run["copies"][0][9] = 3


def copy_not(run: dict[str, Any]) -> None:
    run["copies"][1].pop(5)


def go_round(run: dict[str, Any]) -> None:
    next(event for event in run["events"] if event.get("txn") == "a" and event["type"] == "ok")["read"].append(12)


def invent(run: dict[str, Any]) -> None:
    run["final"][1][3] = 4711


DOCTORED = {
    "lost write: 2": lose,
    "lost write: of [10, 11]": lose_a_part,
    "duplicate: 2": repeat,
    "inconsistent offset": move,
    "out of order: 2": swap,
    "non-monotonic poll: c1": read_again,
    "skipped poll: c2": read_over,
    "unseen: c2": stop_reading,
    "aborted read: c3": read_what_was_aborted,
    "aborted transaction: [20]": keep_what_was_aborted,
    "copy: record 4 of partition 0 is None, in the copy 3": copy_twice,
    "copy: record 1 of partition 1 is 12, in the copy None": copy_not,
    "circular information flow": go_round,
    "nobody sent 4711": invent,
}


def test_a_good_history_has_no_anomalies() -> None:
    assert check_history(**good()) == []


def test_a_record_may_be_acknowledged_without_its_offset() -> None:
    run = good()
    sent = [event for event in run["events"] if event["f"] == "send" and event["type"] == "ok"]
    assert sent
    for event in sent:
        event["offset"] = None
    assert check_history(**run) == []
    lose(run)
    assert any(each.startswith("lost write") for each in check_history(**run))


@pytest.mark.parametrize("found", DOCTORED)
def test_the_checks_find_what_is_wrong_with_a_history(found: str) -> None:
    run = good()
    DOCTORED[found](run)
    wrong = check_history(**run)
    assert any(each.startswith(found) for each in wrong), wrong


def test_the_checks_find_replicas_that_differ(tmp_path: Path) -> None:
    for broker, content in (("1", b"abc"), ("2", b"abc"), ("3", b"abd")):
        for topic in ("t-0", "compacted-0"):
            (tmp_path / broker / topic).mkdir(parents=True)
            (tmp_path / broker / topic / "0.log").write_bytes(content)
        (tmp_path / broker / "t-1").mkdir()
        (tmp_path / broker / "t-1" / "0.log").write_bytes(b"same")
    (found,) = different_replicas([tmp_path / broker for broker in ("1", "2", "3")], ["t"])
    assert found == "replicas differ: t-0 has [3, 3, 3] bytes, first difference at [3, 2]"


def test_what_a_killed_client_did_not_finish_is_unknown(tmp_path: Path) -> None:
    write = Writer(tmp_path / "p1", "p1.1")
    for value in (1, 2, 3):
        write("invoke", "send", value=value, partition=0)
    write("ok", "send", value=1, partition=0, offset=0)
    write("fail", "send", value=2, partition=0, error="queue full")
    with (tmp_path / "p1").open("a") as torn:
        torn.write('{"time": 1, "ty')
    events = merge([tmp_path / "p1"], tmp_path / "history")
    assert counts(events) == {"send": {"ok": 1, "failed": 1, "unknown": 1}}
    assert len((tmp_path / "history").read_text().splitlines()) == 5


@pytest.mark.parametrize("store", ["embedded", "zookeeper"])
def test_a_plan_has_every_kind_of_fault_often_enough_and_ends_in_time(store: str) -> None:
    kinds = kinds_for(store, namespaces=True)
    faults = plan(7, 300.0, kinds)
    assert faults == plan(7, 300.0, kinds) != plan(8, 300.0, kinds)
    assert {fault.kind for fault in faults} == set(kinds)
    assert all(0.1 < following.begin_s - fault.begin_s <= 15 for fault, following in pairwise(faults))
    assert faults[0].begin_s <= 15 and faults[-1].begin_s >= 285
    assert all(fault.begin_s < fault.end_s <= 300 for fault in faults)
