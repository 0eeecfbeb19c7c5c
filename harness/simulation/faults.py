"""Faults for a simulated cluster, one after the other, as a seed decides; never more than the settings tolerate.

Processes may be killed and paused, sessions expired and networks partitioned at any time. Unsynced data may be lost by
`min.insync.replicas` - 1 replicas of a partition until its ISR is whole again (by any number with `flush.messages=1`).
A broker without its clean-shutdown marker cannot tell a kill from a power loss and is counted as one that lost data;
so until the ISRs are whole, a power loss goes with no unclean end of another broker (KIP-966: where all that were in
sync ended uncleanly, the last leader leads, whatever it has lost).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Final

from harness.simulation.cluster import SimulatedBroker, SimulatedCluster

SETTLE_S: Final = 60.0
LOOK_S: Final = 0.1


class Faults:
    """Causes faults for a while, then ends them all. ``keeps_leases``: the store ends no session before its lease.
    ``counts``: how often each kind has happened."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        random: Random,
        *,
        any_power_loss: bool = False,
        clients: Sequence[str] = (),
        keeps_leases: bool = False,
    ) -> None:
        self._clients = clients  # their hosts
        self._cluster = cluster
        self._random = random
        self._any_power_loss = any_power_loss
        self._keeps_leases = keeps_leases
        self._unclean: dict[int, bool] = {}  # unclean ends since the ISRs were whole; True: by power loss
        self.counts: dict[str, int] = {}

    async def run(self, until_s: float) -> None:
        """One fault after the other, some of them overlapping."""
        loop = asyncio.get_running_loop()
        kinds: list[Callable[[SimulatedBroker], Coroutine[None, None, None]]] = [
            self._kill,
            self._kill,
            self._power,
            self._pause,
            self._expire,
            self._cut_store,
            self._isolate,
            self._isolate_and_kill,
            self._ring,
            self._stop,
            self._cut_clients,
        ]
        if self._keeps_leases:
            kinds.remove(self._expire)
        under_way: list[asyncio.Future[None]] = []
        while loop.time() < until_s:
            if self._isrs_are_whole():
                self._unclean.clear()
            broker = self._victim()
            kind = self._random.choice(kinds)
            if broker.running and broker.broker is not None:
                under_way.append(asyncio.ensure_future(kind(broker)))
            await asyncio.sleep(self._random.uniform(0.1, 1.2))
        for each in under_way:
            await each
        self._cluster.heal()

    def _victim(self) -> SimulatedBroker:
        """Any broker, or one that leads something."""
        brokers = self._cluster.brokers
        image = next((each.broker.metadata.image for each in brokers.values() if each.broker is not None), None)
        leaders = (
            []
            if image is None
            else sorted(
                {state.leader for topic in image.topics.values() for state in topic.partitions} & brokers.keys()
            )
        )
        return brokers[self._random.choice(leaders or list(brokers) if self._random.random() < 0.5 else list(brokers))]

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _while_s(self) -> float:
        return self._random.choice((0.03, 0.3, 1.2, 2.0)) * self._random.uniform(0.5, 1.5)

    async def _restart(self, broker: SimulatedBroker) -> None:
        """Start the process, again and again while it gives up because it does not reach the store."""
        await asyncio.sleep(self._while_s())
        while not await broker.try_to_start():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def _kill(self, broker: SimulatedBroker) -> None:
        if not self._may_end(broker, power=False):
            return
        self._count("kill")
        broker.kill()
        await self._restart(broker)

    async def _power(self, broker: SimulatedBroker) -> None:
        if not self._may_end(broker, power=True):
            return
        self._count("power loss")
        broker.lose_power()
        await self._restart(broker)

    def _may_end(self, broker: SimulatedBroker, *, power: bool) -> bool:
        """Whether the settings tolerate this unclean end, too; if so, it is noted."""
        others = [lost for node_id, lost in self._unclean.items() if node_id != broker.node_id]
        if not self._any_power_loss and (others if power else any(others)):
            return False
        self._unclean[broker.node_id] = power or self._unclean.get(broker.node_id, False)
        return True

    def _isrs_are_whole(self) -> bool:
        """Whether all brokers are registered with their current epochs and see all replicas in sync."""
        lives = [each.broker for each in self._cluster.brokers.values()]
        for broker in lives:
            if broker is None or not broker.membership.alive:
                return False
        epochs = {broker.config.node_id: broker.membership.broker_epoch for broker in lives if broker is not None}
        return all(
            epochs == {node_id: each.epoch for node_id, each in broker.metadata.image.brokers.items()}
            and all(
                set(state.isr) == set(state.replicas)
                for topic in broker.metadata.image.topics.values()
                for state in topic.partitions
            )
            for broker in lives
            if broker is not None
        )

    async def _stop(self, broker: SimulatedBroker) -> None:
        self._count("stop")
        if await broker.stop():
            await self._restart(broker)

    async def _pause(self, broker: SimulatedBroker) -> None:
        self._count("pause")
        life = broker.life
        broker.pause()
        await asyncio.sleep(self._while_s())
        if broker.life is life and life is not None and not life.dead:
            broker.resume()

    async def _expire(self, broker: SimulatedBroker) -> None:
        self._count("session expired")
        memory = self._cluster.store.memory
        for session, one in list(memory.sessions.items()):
            if one.owner == f"broker {broker.node_id}":
                memory.end_session(session)

    async def _cut_store(self, broker: SimulatedBroker) -> None:
        self._count("cut from the store")
        self._cluster.cut_from_store(broker)
        await asyncio.sleep(self._while_s())
        self._cluster.simulation.network.heal(broker.host, "store")

    async def _isolate(self, broker: SimulatedBroker) -> None:
        self._count("isolated")
        others = [each.host for each in self._cluster.brokers.values() if each is not broker]
        for other in others:
            self._cluster.simulation.network.cut(broker.host, other)
        if self._random.random() < 0.5:
            others.append("store")
            self._cluster.cut_from_store(broker)
        await asyncio.sleep(self._while_s())
        for other in others:
            self._cluster.simulation.network.heal(broker.host, other)

    async def _isolate_and_kill(self, broker: SimulatedBroker) -> None:
        """Isolate a leader, then kill it: what only it has written is lost."""
        life = broker.life
        isolation = asyncio.ensure_future(self._isolate(broker))
        await asyncio.sleep(self._random.uniform(0.05, 0.6))
        if broker.life is life and broker.running and broker.broker is not None:
            await self._kill(broker)
        await isolation

    async def _ring(self, broker: SimulatedBroker) -> None:
        """Two brokers do not reach each other, though all others reach both."""
        self._count("ring")
        other = self._random.choice([each for each in self._cluster.brokers.values() if each is not broker])
        self._cluster.simulation.network.cut(broker.host, other.host)
        await asyncio.sleep(self._while_s())
        self._cluster.simulation.network.heal(broker.host, other.host)

    async def _cut_clients(self, broker: SimulatedBroker) -> None:
        """Clients get no responses from a broker: they send again, to it or to another."""
        self._count("cut from clients")
        network = self._cluster.simulation.network
        for client in self._clients:
            network.cut(broker.host, client)
        await asyncio.sleep(self._while_s())
        for client in self._clients:
            network.heal(broker.host, client)

    async def mend(self) -> str:
        """End all faults; wait until all brokers run and every ISR is whole. Return what is not ("": nothing)."""
        self._cluster.heal()
        for broker in self._cluster.brokers.values():
            if broker.running and broker.life is not None and broker.life.paused:
                broker.resume()
            if not broker.running:
                await self._restart(broker)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S
        while loop.time() < deadline:
            if self._isrs_are_whole():
                return ""
            await asyncio.sleep(LOOK_S)
        images = [
            (
                each.node_id,
                sorted(each.broker.metadata.image.brokers),
                [
                    (name, index, state)
                    for name, topic in each.broker.metadata.image.topics.items()
                    for index, state in enumerate(topic.partitions)
                ],
            )
            for each in self._cluster.brokers.values()
            if each.broker is not None
        ]
        return f"stuck: the ISRs are not whole {SETTLE_S:.0f} s after the last fault: {images}"
