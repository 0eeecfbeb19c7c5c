"""Find the anomalies of Jepsen's Kafka workload in a history: what must never happen, whatever has failed.

``final`` and ``committed`` are the contents of every partition after all faults, read without and with read_committed.
An anomaly is a sentence. What lives elsewhere: which faults the settings promise to survive (`faults`), making the
history (`workload`, `transactional`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.simulation.workload import History

Logs = Mapping[int, Mapping[int, int]]
"""Value by offset, by partition."""


def anomalies(history: History) -> list[str]:
    """All anomalies, one sentence each; none if the history is correct."""
    return [
        *_of_final(history),
        *_of_sends(history),
        *_of_transactions(history),
        *_of_polls(history.polled, history.final),
        *_of_polls(history.committed_polled, history.committed),
        *_of_aborted(history),
        *_of_order(history),
        *history.trouble,
    ]


def _of_final(history: History) -> Iterator[str]:
    in_transactions = {value for txn in history.transactions for value in txn.sent}
    places: dict[int, tuple[int, int]] = {}
    for partition, log in history.final.items():
        for offset, value in log.items():
            if value in places:
                yield f"duplicate: {value} is at {places[value]} and at {(partition, offset)}"
            places[value] = (partition, offset)
            if value not in history.acked and value not in history.unknown and value not in in_transactions:
                yield f"nobody sent {value}, which is at {(partition, offset)}"
    for partition, log in history.committed.items():
        for offset, value in log.items():
            if history.final[partition].get(offset) != value:
                yield f"inconsistent offset: {value} is committed at {(partition, offset)} and not there"


def _of_sends(history: History) -> Iterator[str]:
    final = _places(history.committed)
    for value, (partition, offset) in history.acked.items():
        there = final.get(value)
        if there is None:
            yield f"lost write: {value} was acknowledged at {(partition, offset)}"
        elif there[0] != partition or offset not in (-1, there[1]):
            yield f"inconsistent offset: {value} was acknowledged at {(partition, offset)} and is at {there}"


def _of_transactions(history: History) -> Iterator[str]:
    """Each transaction is visible as a whole or not at all; a committed one must be visible."""
    final = _places(history.committed)
    for txn in history.transactions:
        there = [value for value in txn.sent if value in final]
        if txn.outcome == "aborted" and there:
            yield f"aborted transaction: {there} of {list(txn.sent)} are there"
        elif txn.outcome == "committed" and len(there) < len(txn.sent):
            yield f"lost write: of {list(txn.sent)}, committed in one transaction, only {there} are there"
        elif 0 < len(there) < len(txn.sent):
            yield f"torn transaction: of {list(txn.sent)} only {there} are there"


def _of_polls(polled: Mapping[str, list[tuple[int, int, int]]], final: Logs) -> Iterator[str]:
    for name, read in polled.items():
        last: dict[int, int] = {}
        for partition, offset, value in read:
            before = last.get(partition, -1)
            if offset <= before:
                yield f"non-monotonic poll: {name} read {(partition, offset)} after {before}"
            for skipped in range(before + 1, offset):
                if skipped in final.get(partition, {}):
                    yield f"skipped poll: {name} read {(partition, offset)} after {before}, not {skipped}"
            last[partition] = offset
            now = final.get(partition, {}).get(offset)
            if now != value:
                yield f"inconsistent offset: {name} read {value} at {(partition, offset)}, where {now} is"
        if name.endswith("in transactions"):
            continue  # it does not read to the end
        for partition, log in final.items():
            for offset in log:
                if offset > last.get(partition, -1):
                    yield f"unseen: {name} did not read {(partition, offset)}"


def _of_aborted(history: History) -> Iterator[str]:
    aborted = {value for txn in history.transactions if txn.outcome == "aborted" for value in txn.sent}
    for name, read in history.committed_polled.items():
        for partition, offset, value in read:
            if value in aborted:
                yield f"aborted read: {name} read {value} at {(partition, offset)}"


def _of_order(history: History) -> Iterator[str]:
    """G1c: a transaction that reads what another wrote comes after it; no transaction comes after itself."""
    writers = {value: number for number, txn in enumerate(history.transactions) for value in txn.sent}
    before = {
        number: sorted({writers[value] for value in txn.read if writers.get(value, number) != number})
        for number, txn in enumerate(history.transactions)
    }
    open_, done = set[int](), set[int]()
    for start, read in before.items():
        path = [(start, iter(read))] if start not in done else []
        open_.update(number for number, _ in path)
        while path:
            number, rest = path[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                path.pop()
                open_.discard(number)
                done.add(number)
            elif following in open_:
                cycle = [each for each, _ in path]
                yield f"circular information flow: {cycle[cycle.index(following) :]}"
                done.add(following)
            else:
                open_.add(following)
                path.append((following, iter(before[following])))


def _places(logs: Logs) -> dict[int, tuple[int, int]]:
    return {value: (partition, offset) for partition, log in logs.items() for offset, value in log.items()}
