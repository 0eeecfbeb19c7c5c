"""The history of a run: one line of JSON per event, and its form for the checker.

Every client process writes to a file of its own, before an operation ("invoke") and after it: "ok", "fail" (it did not
happen and never will) or "info" (the result is unknown). An operation without an end counts as "info": its process
ended. Merged by time the files are the history of the run, with the faults between them (process "nemesis").

| f | fields |
| --- | --- |
| send | value, partition; ok: offset |
| txn | txn (its number), sent: [[value, partition], ...]; at the end also read: [values], wanted ("commit", "abort") |
| copy | txn, read: [values] |
| poll | isolation, name, records: [[partition, offset, value], ...] |

What lives elsewhere: the operations (`workers`), the checks (`checks`).
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.simulation.workload import History, Transaction

Event = dict[str, Any]


class Writer:
    """One process's file. Each line is written before the call returns, so a kill loses none."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, type_: str, f: str, **fields: Any) -> None:
        """Write an event with the time in seconds. The module describes ``type_``, ``f`` and the fields."""
        event = {"time": round(time.time(), 4), "process": self._process, "type": type_, "f": f, **fields}
        os.write(self._file, json.dumps(event, separators=(",", ":")).encode() + b"\n")


def read_events(path: Path) -> Iterator[Event]:
    """The events of a file, without a last line that a kill has left incomplete."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


def merge(paths: list[Path], target: Path) -> list[Event]:
    """All events in the order of their time; they are written to one file as well."""
    events = sorted((event for path in paths for event in read_events(path)), key=lambda event: event["time"])
    with target.open("w") as out:
        for event in events:
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    return events


def history_of(events: list[Event]) -> History:
    """The history in the checker's form, without the final logs."""
    history = History()
    transactions: dict[str, Transaction] = {}
    for event in events:
        f, type_ = event["f"], event["type"]
        if f == "send":
            _add_send(history, event)
        elif f == "txn":
            _add_transaction(history, transactions, event)
        elif f == "poll" and type_ == "ok":
            polled = history.committed_polled if event["isolation"] == "read_committed" else history.polled
            polled.setdefault(event["name"], []).extend((p, offset, value) for p, offset, value in event["records"])
        elif f == "trouble":
            history.trouble.append(f"{event['process']}: {event['error']}")
    return history


def _add_send(history: History, event: Event) -> None:
    value = event["value"]
    if event["type"] == "invoke":
        history.unknown[value] = event["partition"]
    elif event["type"] == "ok":
        history.unknown.pop(value, None)
        # librdkafka knows no offset of a record that waits to be sent again when a later one is acknowledged: a broker
        # that has the later one has this one, too.
        history.acked[value] = (event["partition"], -1 if event["offset"] is None else event["offset"])
    elif event["type"] == "fail":
        history.unknown.pop(value, None)


def _add_transaction(history: History, open_: dict[str, Transaction], event: Event) -> None:
    """A transaction is unknown from its beginning until its end is known."""
    if event["type"] == "invoke":
        transaction = Transaction(sent=dict(event["sent"]), outcome="unknown")
        open_[event["txn"]] = transaction
        history.transactions.append(transaction)
        return
    transaction = open_[event["txn"]]
    transaction.read = list(event["read"])
    if event["type"] == "ok":
        transaction.outcome = "committed" if event["wanted"] == "commit" else "aborted"
    elif event["type"] == "fail":
        transaction.outcome = "aborted"


def counts(events: list[Event]) -> dict[str, dict[str, int]]:
    """How many operations of each kind succeeded, failed or are unknown."""
    names = {"ok": "ok", "fail": "failed", "info": "unknown"}
    found: dict[str, Counter[str]] = {}
    for event in events:
        if event["f"] in ("send", "txn", "copy", "poll"):
            counter = found.setdefault(event["f"], Counter(ok=0, failed=0, unknown=0))
            if event["type"] == "invoke":
                counter["unknown"] += 1
            else:
                if event["f"] != "poll":  # whose invocation is not written
                    counter["unknown"] -= 1
                counter[names[event["type"]]] += 1
    return {f: dict(counter) for f, counter in sorted(found.items())}
