"""What a step costs, counted: requests on the network, commits and bytes in the store, calls of kwire's functions.

Counts are the same in every run of a seed; processor time and memory are measured beside them.
"""

from __future__ import annotations

import cProfile
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from harness.simulation.cluster import PORT
from harness.simulation.trace import Buffer, Trace
from kwire.cluster.store.feed import FeedSubscription
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Check, CommitTooLarge, Conflict, Event, Listener, Write
from kwire.codec.protocol import ApiKey

FRAME_HEAD_BYTES: Final = 6
"""The length of a frame, and the API key of a request."""

COMMIT_BYTES_MAX: Final = 1024 * 1024 - 16 * 1024
WRITE_BYTES: Final = 160
"""ZooKeeper's limit for one commit, and what kwire counts for each write beside its key and value."""


@dataclass
class Costs:
    """The costs of one step. ``virtual_s``: simulated seconds, in which computing takes no time; ``cpu_s``: processor
    time of all brokers and of the simulation; ``calls``: of functions in kwire, 0 if they were not counted;
    ``requests``: frames to brokers by API; ``bytes``: on the network, responses included; ``keys``, ``store_bytes``:
    written in commits; ``delivered_bytes``: of these, to all brokers that follow the store; ``memory_mb``: of the
    process after the step."""

    step: str
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    commits: int = 0
    conflicts: int = 0
    keys: int = 0
    store_bytes: int = 0
    delivered_bytes: int = 0
    memory_mb: float = 0.0
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def requests_total(self) -> int:
        """Requests of all APIs."""
        return sum(self.requests.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class CountingTrace(Trace):
    """Counts requests by API and all bytes; keeps no hash of the events."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.requests: Counter[int] = Counter()
        self.bytes = 0
        self._streams: dict[tuple[Any, Any], tuple[int, bytes]] = {}  # bytes to skip, head of the next frame

    def record(self, kind: str, *facts: object, data: Buffer | None = None) -> None:
        """See `Trace.record`."""
        if kind == "send" and data is not None:
            self.bytes += len(data)
            if facts[1][1] == PORT:  # type: ignore[index]
                self._count(facts, bytes(data))
        elif kind == "close":
            self._streams.pop((facts[0], facts[1]), None)

    def _count(self, stream: Any, data: bytes) -> None:
        skip, head = self._streams.get(stream, (0, b""))
        at, end = 0, len(data)
        while at < end:
            step = min(skip, end - at)
            at += step
            skip -= step
            if at == end:
                break
            piece = data[at : at + FRAME_HEAD_BYTES - len(head)]
            head += piece
            at += len(piece)
            if len(head) == FRAME_HEAD_BYTES:
                self.requests[int.from_bytes(head[4:], "big")] += 1
                skip, head = int.from_bytes(head[:4], "big") - 2, b""
        self._streams[stream] = (skip, head)


class CountingStore(MemoryStore):
    """Counts commits, and refuses those that are too large for ZooKeeper."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = self.conflicts = self.keys = self.bytes = self.delivered = 0
        self._event_bytes = 0

    def commit_now(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `MemoryStore.commit_now`."""
        size = sum(WRITE_BYTES + len(write.key) + len(write.value or b"") for write in writes)
        if size > COMMIT_BYTES_MAX:
            raise CommitTooLarge(f"the change has {size} bytes, the store accepts at most {COMMIT_BYTES_MAX} at once")
        try:
            return super().commit_now(checks, writes)
        except Conflict:
            self.conflicts += 1
            raise

    def subscribe_now(self, listener: Listener) -> FeedSubscription:
        """See `MemoryStore.subscribe_now`."""

        def counted(event: Event) -> None:
            self.delivered += self._event_bytes
            listener(event)

        self._event_bytes = sum(len(entry.value) for entry in self._entries.values())
        return super().subscribe_now(counted)

    def _apply(self, writes: Sequence[Write]) -> int:
        self._event_bytes = sum(len(write.value or b"") for write in writes)
        self.commits += 1
        self.keys += len(writes)
        self.bytes += self._event_bytes
        return super()._apply(writes)


class Meter:
    """Measures steps one after the other. ``count_calls`` makes everything slower."""

    def __init__(self, trace: CountingTrace, store: CountingStore, now: Callable[[], float], *, count_calls: bool):
        self._trace = trace
        self._store = store
        self._now = now
        self._count_calls = count_calls
        self._profile: cProfile.Profile | None = None
        self._looking_s = 0.0
        self.steps: list[Costs] = []
        self.calls: dict[str, Counter[str]] = {}
        """Calls by step and function, if they are counted."""

    @contextmanager
    def step(self, name: str) -> Iterator[Costs]:
        """Measure what happens within."""
        costs = Costs(name)
        trace, store = self._trace, self._store
        virtual_s, requests, sent = self._now(), trace.requests.copy(), trace.bytes
        stored = (store.commits, store.conflicts, store.keys, store.bytes, store.delivered)
        self._looking_s, started_s = 0.0, time.process_time()
        if self._count_calls:
            self._profile = cProfile.Profile(subcalls=False)
            self._profile.enable()
        yield costs
        if self._profile is not None:
            self._profile.disable()
            self.calls[name] = _calls(self._profile)
            costs.calls = sum(self.calls[name].values())
            self._profile = None
        costs.cpu_s = time.process_time() - started_s - self._looking_s
        costs.virtual_s = self._now() - virtual_s
        costs.requests = {ApiKey(key).name: count for key, count in sorted((trace.requests - requests).items())}
        costs.bytes = trace.bytes - sent
        now = (store.commits, store.conflicts, store.keys, store.bytes, store.delivered)
        differences = (after - before for after, before in zip(now, stored, strict=True))
        costs.commits, costs.conflicts, costs.keys, costs.store_bytes, costs.delivered_bytes = differences
        costs.memory_mb = memory_mb()
        self.steps.append(costs)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """What the campaign itself does within is not measured."""
        profile, started_s = self._profile, time.process_time()
        if profile is not None:
            profile.disable()
        try:
            yield
        finally:
            self._looking_s += time.process_time() - started_s
            if profile is not None:
                profile.enable()


def _calls(profile: cProfile.Profile) -> Counter[str]:
    """The calls of functions in kwire, and of what they call in C."""
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        code = entry.code
        if not isinstance(code, str) and "/kwire/" in code.co_filename:
            found[f"{code.co_filename.rpartition('/kwire/')[2]}:{code.co_qualname}"] += entry.callcount
    return found


def memory_mb() -> float:
    """The resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
