"""A share group beside the other clients: the members of the simulation (`harness.simulation.sharing`), with real
brokers. One process has all members, so that their times are those of one clock; it writes its history at the end.

What lives elsewhere: the promises that the history must keep (`harness.simulation.sharing.promises`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from campaigns.chaos.history import Event
from campaigns.chaos.workers import TOPIC, Job, Worker, end_of_input
from harness.simulation.sharing import group
from harness.simulation.sharing.history import Answer, Delivery, Serving, ShareHistory, Span
from harness.simulation.sharing.member import Member
from harness.simulation.sharing.promises import anomalies
from harness.simulation.workload import Client
from kwire.base.addresses import parse_address
from kwire.base.doors import Doors
from kwire.share.values import AcknowledgeType

SETTINGS: Final = {
    **group.SETTINGS,
    "group.share.record.lock.duration.ms": "3000",
    "group.share.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "share.coordinator.write.timeout.ms": "5000",
    "log.roll.ms": "5000",
}
"""Properties of the brokers. A lock is shorter than a session with the store: what was held ends before another broker
leads."""
DELIVERY_LIMIT: Final = 10
CALL_S: Final = 5.0
DRAINED_S: Final = 120.0
QUIET_S: Final = 20.0
"""If nothing was delivered for so long, nothing is left: the lag does not know of aborted records at the end."""


@dataclass
class Host:
    """This machine, under a client's name."""

    name: str
    doors: Doors


class RealSite:
    """Real brokers, as the simulation's clients want them."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap: list[tuple[str, int]] = [parse_address(each) for each in bootstrap.split(",")]
        self._seed = seed
        self._doors = Doors()

    @property
    def simulation(self) -> RealSite:
        """Hosts and randomness."""
        return self

    def machine(self, name: str) -> Host:
        """See `harness.simulation.workload.World`."""
        return Host(name, self._doors)

    def random(self, purpose: str) -> random.Random:
        """See `harness.simulation.workload.World`."""
        return random.Random(f"{self._seed} {purpose}")

    def look(self) -> None:
        """Nothing can be seen inside real brokers."""


def share(job: Job) -> None:
    """Be a share group until the campaign closes standard input; then accept everything until nothing is left."""
    asyncio.run(_share(Worker(job)))


async def _share(worker: Worker) -> None:
    job, loop = worker.job, asyncio.get_running_loop()
    site = RealSite(job.bootstrap, job.seed)

    def client(name: str) -> Client:
        return Client(site, name, job.partitions, CALL_S)

    watcher, history = client("watcher"), ShareHistory(DELIVERY_LIMIT)
    await group.configure(watcher, DELIVERY_LIMIT, committed=True)
    topic_id = await group.topic_id_of(watcher)
    names = [f"s{number}" for number in range(group.MEMBERS)]
    members = [
        Member(group.GROUP, (TOPIC, topic_id), (client(name), client(f"{name}-data")), _unseen).attend(history)
        for name in names
    ]
    drain, over = end_of_input(), asyncio.Event()
    working = asyncio.gather(*(member.run(over.is_set) for member in members))
    while not drain.is_set():
        worker.alive()
        await asyncio.sleep(0.2)
    for member in members:
        member.finish()
    deadline_s = loop.time() + DRAINED_S
    deliveries, quiet_s = len(history.deliveries), loop.time() + QUIET_S
    left: dict[int, int] = dict.fromkeys(range(job.partitions), -1)
    while any(left.values()) and loop.time() < min(deadline_s, quiet_s):
        worker.alive()
        if len(history.deliveries) > deliveries:
            deliveries, quiet_s = len(history.deliveries), loop.time() + QUIET_S
        left |= {partition: data.lag for partition, data in (await group.describe(watcher)).items()}
        await asyncio.sleep(0.5)
    if loop.time() >= deadline_s:
        history.trouble.append(f"share stuck: {DRAINED_S:.0f} s after the last fault {left} records are left")
    over.set()
    await working
    worker.write("ok", "share", **as_json(history))


def _unseen(_address: tuple[str, int], _partition: int) -> Serving:
    return Serving()


def as_json(history: ShareHistory) -> dict[str, Any]:
    """A history as JSON can hold it."""
    return {
        "deliveries": [
            (each.member, each.record, each.value, each.count, each.lock_s, each.span[:2])
            for each in history.deliveries
        ],
        "answers": [(each.member, each.record, each.kind, each.error, each.span[:2]) for each in history.answers],
        "unanswered": list(history.unanswered.items()),
        "errors": history.errors,
        "trouble": history.trouble,
    }


def history_of(event: Event) -> ShareHistory:
    """The history that `as_json` has written."""
    history = ShareHistory(DELIVERY_LIMIT, trouble=event["trouble"], unanswered=dict(event["unanswered"]))
    for member, record, value, count, lock_s, span in event["deliveries"]:
        history.deliveries.append(Delivery(member, tuple(record), value, count, lock_s, Span(*span)))
    for member, record, kind, error, span in event["answers"]:
        history.answers.append(Answer(member, tuple(record), AcknowledgeType(kind), error, Span(*span)))
    history.errors.update(event["errors"])
    return history


def check(events: list[Event], committed: Mapping[int, Mapping[int, int]]) -> tuple[list[str], dict[str, int]]:
    """The anomalies of the share group of a run, and how much has happened."""
    found = [history_of(event) for event in events if event["f"] == "share"]
    if len(found) != 1:
        return [f"the share group has {len(found)} histories"], {}
    return anomalies(found[0], committed), found[0].counts() | dict(found[0].errors)
