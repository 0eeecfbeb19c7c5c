"""Which faults come when: a plan made from a seed, and the nemesis that carries it out.

All kinds of fault come once in random order, then all once more, and so on. A new fault begins every `GAP_S`; each
lasts from a moment to longer than the session timeout, so some overlap. Power is never lost here: the kernel keeps what
a killed broker has written.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from campaigns.chaos.cluster import STORE_HOST, Cluster
from campaigns.chaos.network import CLIENTS

GAP_S = (6.0, 13.0)
LASTS_S = ((0.2, 1.5), (1.5, 5.0), (5.0, 12.0))
BROKERS = (1, 2, 3)

PROCESS_KINDS = ("kill", "pause", "stop")
"""Faults of one broker's process. With those below they need neither namespaces nor ZooKeeper."""
SESSION_KIND = "session"
NETWORK_KINDS = ("isolate", "isolate from clients too", "ring", "isolate and kill")
STORE_KINDS = ("zookeeper away",)
BOTH_KINDS = ("cut from zookeeper",)


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: from when to when, in seconds since the clients began. ``chance`` decides what else there is to."""

    begin_s: float
    end_s: float
    kind: str
    broker: int
    chance: float


def kinds_for(store: str, *, namespaces: bool) -> list[str]:
    """The kinds of fault that are possible on this network and store."""
    kinds = [*PROCESS_KINDS, "kill", SESSION_KIND]
    if namespaces:
        kinds += NETWORK_KINDS
    if store == "zookeeper":
        kinds += STORE_KINDS
        if namespaces:
            kinds += BOTH_KINDS
    return kinds


def plan(
    seed: int, seconds: float, kinds: list[str], gap_s: tuple[float, float] = GAP_S, longest_s: float = LASTS_S[-1][1]
) -> list[Fault]:
    """All faults of a run. They end with it at the latest."""
    chance = random.Random(f"faults {seed}")
    faults: list[Fault] = []
    bag = _bag(chance, kinds)
    begin_s = chance.uniform(1.0, gap_s[1] / 2)
    while begin_s < seconds - 1:
        end_s = min(seconds, begin_s + min(longest_s, chance.uniform(*chance.choice(LASTS_S))))
        faults.append(Fault(begin_s, end_s, next(bag), chance.choice(BROKERS), chance.random()))
        begin_s += chance.uniform(*gap_s)
    return faults


def _bag(chance: random.Random, kinds: list[str]) -> Iterator[str]:
    while True:
        yield from chance.sample(kinds, len(kinds))


@dataclass
class Nemesis:
    """Carries out a plan on a cluster. ``tell(kind, what)`` is called at each step."""

    cluster: Cluster
    tell: Callable[[str, str], None]
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, faults: list[Fault], started: float, watch: Callable[[], None]) -> None:
        """Return when the last fault is over. ``watch`` is called often meanwhile."""
        steps: list[tuple[float, int, Callable[[], None]]] = []
        for number, fault in enumerate(faults):
            undo: list[Callable[[], None]] = []
            steps.append((fault.begin_s, number, lambda f=fault, u=undo: self._begin(f, u)))  # type: ignore[misc]
            steps.append((fault.end_s, number, lambda f=fault, u=undo: self._end(f, u)))  # type: ignore[misc]
        for at_s, _, step in sorted(steps, key=lambda each: each[:2]):
            while time.monotonic() < started + at_s:
                self._look(watch)
                time.sleep(min(0.1, max(0.0, started + at_s - time.monotonic())))
            step()

    def _look(self, watch: Callable[[], None]) -> None:
        for found in self.cluster.keep_running():
            self.tell("broker ended", found)
        watch()

    def _begin(self, fault: Fault, undo: list[Callable[[], None]]) -> None:
        begin: dict[str, Callable[[Fault], Any]] = {
            "kill": self._kill,
            "pause": self._pause,
            "stop": self._stop,
            "session": self._session,
            "isolate": self._isolate,
            "isolate from clients too": lambda f: self._isolate(f, clients=True),
            "isolate and kill": self._isolate_and_kill,
            "ring": self._ring,
            "cut from zookeeper": lambda f: self._cut([(f"b{f.broker}", STORE_HOST)]),
            "zookeeper away": lambda f: self._kill_store() if f.chance < 0.3 else self._pause_store(),
        }
        for kind, broker in _instead(fault):
            done = begin[kind](replace(fault, kind=kind, broker=broker))
            if done is not None:
                what, back = done
                undo.append(back)
                self.counts[kind] += 1
                self.tell(kind, f"{what} for {fault.end_s - fault.begin_s:.1f} s")
                return
            self.tell(kind, f"b{broker}: not now, another fault has it")

    def _end(self, fault: Fault, undo: list[Callable[[], None]]) -> None:
        for back in undo:
            self.tell(fault.kind, f"b{fault.broker}: over")
            back()

    # Each returns what it has done and how to undo it, or None if it is impossible now.

    def _kill(self, fault: Fault) -> Any:
        broker = self.cluster.brokers[fault.broker]
        if not broker.wanted or broker.paused:
            return None
        broker.kill_hard()
        return f"b{fault.broker}", broker.run

    def _pause(self, fault: Fault) -> Any:
        broker = self.cluster.brokers[fault.broker]
        if not broker.wanted or broker.paused or not broker.is_running():
            return None
        broker.pause()
        return f"b{fault.broker}", broker.resume

    def _stop(self, fault: Fault) -> Any:
        broker = self.cluster.brokers[fault.broker]
        if not broker.wanted or broker.paused or not broker.is_running():
            return None
        broker.ask_to_stop()

        def start_again() -> None:
            if broker.is_running():  # not done in time: the rest of it is a kill
                self.counts["stop cut short by a kill"] += 1
                broker.kill_hard()
            broker.run()

        return f"b{fault.broker}", start_again

    def _session(self, fault: Fault) -> Any:
        try:
            ended = self.cluster.end_session(fault.broker)
        except Exception as error:
            self.tell(fault.kind, f"b{fault.broker}: {type(error).__name__} {error}")
            return None
        return (f"b{fault.broker}", _nothing) if ended else None

    def _isolate(self, fault: Fault, *, clients: bool = False) -> Any:
        others = [f"b{other}" for other in BROKERS if other != fault.broker]
        if self.cluster.zookeeper is not None:
            others.append(STORE_HOST)
        if clients:
            others.append(CLIENTS)
        return self._cut([(f"b{fault.broker}", other) for other in others])

    def _isolate_and_kill(self, fault: Fault) -> Any:
        """Isolate a leader, then kill it: what only it has written is lost."""
        broker = self.cluster.brokers[fault.broker]
        if not broker.wanted or broker.paused:
            return None
        what, heal = self._isolate(fault)
        time.sleep(0.2 + fault.chance)
        broker.kill_hard()

        def back() -> None:
            heal()
            broker.run()

        return what, back

    def _ring(self, fault: Fault) -> Any:
        """Every broker reaches a majority, and each a different one: opposite corners do not reach each other."""
        members = [f"b{number}" for number in BROKERS]
        if self.cluster.zookeeper is not None:
            members.append(STORE_HOST)
        random.Random(fault.chance).shuffle(members)
        half = len(members) // 2
        pairs = list(itertools.islice(zip(members, members[2:], strict=False), half))
        return self._cut(pairs)

    def _cut(self, pairs: list[tuple[str, str]]) -> Any:
        network = self.cluster.network
        for one, other in pairs:
            network.cut(one, other)

        def heal() -> None:
            for one, other in pairs:
                network.heal(one, other)

        return ", ".join(f"{one} from {other}" for one, other in pairs), heal

    def _pause_store(self) -> Any:
        if not self._store_runs():
            return None
        self.cluster.pause_store()
        return "paused", self.cluster.resume_store

    def _kill_store(self) -> Any:
        if not self._store_runs():
            return None
        self.cluster.kill_store()
        return "killed", self._start_store

    def _start_store(self) -> None:
        try:
            self.cluster.start_store()
        except (AssertionError, TimeoutError) as error:
            self.tell("zookeeper away", f"it does not start, once more: {error}")
            self.cluster.kill_store()
            self.cluster.start_store()

    def _store_runs(self) -> bool:
        return self.cluster.store_runs


def _instead(fault: Fault) -> Iterator[tuple[str, int]]:
    """Alternatives to a fault that is impossible now: the same on another broker, then other kinds."""
    others = [each for each in BROKERS if each != fault.broker]
    for kind in dict.fromkeys((fault.kind, "kill", "pause")):
        for broker in (fault.broker, *others):
            yield kind, broker


def _nothing() -> None:
    """Nothing: the broker opens a new session itself."""
