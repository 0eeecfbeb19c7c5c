"""What must hold of a history, whatever has failed: the anomalies of Jepsen's Kafka workload, looked for by name.

``final`` is every partition as it reads when all is well again. An anomaly is a sentence. What lives elsewhere: which
faults the settings promise to survive (`faults`), making the history (`workload`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.testing.simulation.workload import History


def anomalies(history: History) -> list[str]:
    """Everything that must not be."""
    return [*_of_final(history), *_of_sends(history), *_of_polls(history), *history.trouble]


def _of_final(history: History) -> Iterator[str]:
    places: dict[int, tuple[int, int]] = {}
    for partition, log in history.final.items():
        for offset, value in log.items():
            if value in places:
                yield f"duplicate: {value} is at {places[value]} and at {(partition, offset)}"
            places[value] = (partition, offset)
            if value not in history.acked and value not in history.unknown:
                yield f"nobody sent {value}, which is at {(partition, offset)}"


def _of_sends(history: History) -> Iterator[str]:
    final = {value: (partition, offset) for partition, log in history.final.items() for offset, value in log.items()}
    seen = {value for read in history.polled.values() for _, _, value in read}
    for value, (partition, offset) in history.acked.items():
        there = final.get(value)
        if there is None:
            yield f"lost write: {value} was acknowledged at {(partition, offset)}"
        elif there[0] != partition or offset not in (-1, there[1]):
            yield f"inconsistent offset: {value} was acknowledged at {(partition, offset)} and is at {there}"
        elif value not in seen:
            yield f"unseen: {value} at {there}"


def _of_polls(history: History) -> Iterator[str]:
    for name, read in history.polled.items():
        last: dict[int, int] = {}
        for partition, offset, value in read:
            before = last.get(partition, -1)
            if offset <= before:
                yield f"non-monotonic poll: {name} read {(partition, offset)} after {before}"
            for skipped in range(before + 1, offset):
                if skipped in history.final.get(partition, {}):
                    yield f"skipped poll: {name} read {(partition, offset)} after {before}, not {skipped}"
            last[partition] = offset
            now = history.final.get(partition, {}).get(offset)
            if now != value:
                yield f"inconsistent offset: {name} read {value} at {(partition, offset)}, where {now} is"
