"""A simulated cluster: real brokers on machines that stop, crash, lose power or lose the network as a seed decides.

What lives elsewhere: the metadata store (`store`), disks and their losses (`power`), what clients do and what must hold
(`workload`, `checker`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.simulation.disk import Disk
from harness.simulation.loop import LIFE, Life
from harness.simulation.network import SimulatedSockets
from harness.simulation.power import PowerDisk
from harness.simulation.store import HOST, StoreClient, StoreServer
from harness.simulation.world import SimulatedExecutor, Simulation
from kwire.base.config import KafkaConfig
from kwire.base.doors import Clock, Doors

if TYPE_CHECKING:
    from kwire.server.broker import Broker

T = TypeVar("T")

PORT: Final = 9092


class SimulatedBroker:
    """One broker's machine, through the lives of its process."""

    def __init__(self, cluster: SimulatedCluster, node_id: int) -> None:
        self.node_id = node_id
        self.host = f"b{node_id}"
        self._cluster = cluster
        self._disk: Disk = cluster.new_disk()
        self._random = cluster.simulation.random(self.host)
        self.life: Life | None = None
        self.broker: Broker | None = None
        self._client: StoreClient | None = None
        self._lives = 0
        self._stopping = False

    def leads_unregistered(self) -> bool:
        """Whether this process still leads partitions although it has noticed the end of its registration."""
        broker = self.broker
        if broker is None or not self.running or self._stopping or self._client is None:
            return False
        if not self._client.sessions or not self._client.sessions[-1].noticed_loss:
            return False
        return any(partition.leading for partition in broker.replicas.partitions())

    @property
    def disk(self) -> Disk:
        """The machine's disk."""
        return self._disk

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.life is not None and not self.life.dead

    async def start(self) -> None:
        """Start the process and wait until it serves clients, or something else ends it."""
        from kwire.server.broker import Broker

        simulation = self._cluster.simulation
        self._lives += 1
        self._stopping = False
        self.life = Life(f"{self.host}/{self._lives}")
        self._client = StoreClient(self._cluster.store, self.host)
        sockets = SimulatedSockets(simulation.network, self.host, self._disk)
        doors = Doors(
            clock=Clock(
                time_ms=simulation.time_ms,
                monotonic=simulation.loop.time,
                perf_counter=simulation.loop.time,
                thread_time=lambda: 0.0,
            ),
            files=self._disk,
            sockets=sockets,
            executor=SimulatedExecutor(simulation.loop, simulation.trace, Random(self._random.random())),
            random=Random(self._random.random()),
            processes=None,
        )
        broker = Broker(self._cluster.config(self.node_id), doors=doors, store=self._client)
        await self.within(broker.start())
        if self.life is not None and not self.life.dead:
            self.broker = broker

    async def try_to_start(self) -> bool:
        """Like `start`; False if the process has given up and ended."""
        from kwire.server.errors import StartError

        try:
            await self.start()
        except StartError:
            self.kill()
            return False
        return True

    def within(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run something in the process. It never ends if the process is killed meanwhile: use a time limit."""
        context = copy_context()
        context.run(LIFE.set, self.life)
        task: asyncio.Task[T] = self._cluster.simulation.loop.create_task(work, context=context)
        return task

    def kill(self) -> None:
        """SIGKILL: what was written survives in the page cache."""
        self._end()
        self._disk.forget_process()

    def lose_power(self) -> None:
        """Cut the power: what was not synced is gone or torn."""
        self._end()
        assert isinstance(self._disk, PowerDisk)
        self._disk = self._disk.after_power_loss(self._random)

    def _end(self) -> None:
        assert self.life is not None
        assert self._client is not None
        self._cluster.simulation.loop.kill(self.life)
        self._cluster.simulation.network.close_all(self.host)
        self._client.disconnect()
        if self._cluster.deaths_are_seen:
            for session in self._client.sessions:
                self._cluster.store.memory.end_session(session.id)
        self.broker = None

    async def stop(self) -> bool:
        """SIGTERM; False if something else ended the process meanwhile."""
        assert self.broker is not None
        assert self.life is not None
        life = self.life
        self._stopping = True
        stopping = self.within(self.broker.stop())
        while not stopping.done() and not life.dead:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if life.dead:
            return False
        self._cluster.simulation.loop.kill(life)
        self.broker = None
        return True

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.life is not None
        self._cluster.simulation.loop.pause(self.life)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.life is not None
        self._cluster.simulation.loop.resume(self.life)


class SimulatedCluster:
    """Brokers 1 to ``count`` and their store. ``deaths_are_seen``: the store notices a dead process at once (as on one
    host) and not after its lease."""

    def __init__(
        self,
        simulation: Simulation,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        *,
        deaths_are_seen: bool = True,
    ) -> None:
        self.simulation = simulation
        self.deaths_are_seen = deaths_are_seen
        self.store = StoreServer(simulation.network)
        self._properties = dict(properties or {})
        self.trouble: list[str] = []
        self.brokers = {number: SimulatedBroker(self, number) for number in range(1, count + 1)}

    def config(self, node_id: int) -> KafkaConfig:
        """A broker's configuration: short time-outs, small segments, three replicas."""
        return KafkaConfig(
            {
                "log.dirs": "/data",
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://b{node_id}:{PORT}",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.num.partitions": "1",
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "default.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
                "min.insync.replicas": "2",
                "replica.lag.time.max.ms": "800",
                "replica.fetch.wait.max.ms": "150",
                "replica.fetch.backoff.ms": "50",
                "broker.session.timeout.ms": "1200",
                **self._properties,
            }
        )

    def new_disk(self) -> Disk:
        """An empty disk for one broker."""
        return PowerDisk(self.simulation.time_ms)

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """Host and port of every broker."""
        return [(broker.host, PORT) for broker in self.brokers.values()]

    async def start(self) -> None:
        """Start all, one after the other."""
        for broker in self.brokers.values():
            await broker.start()

    def look(self) -> None:
        """Note in ``trouble`` what must not be at any moment. This changes nothing in the simulation."""
        for broker in self.brokers.values():
            if not self.trouble and broker.leads_unregistered():
                self.trouble.append(f"{broker.host} leads without a registration")

    def cut_from_store(self, broker: SimulatedBroker) -> None:
        """Partition the network between a broker and the metadata store."""
        self.simulation.network.cut(broker.host, HOST)

    def heal(self) -> None:
        """Heal all network partitions."""
        self.simulation.network.heal_all()

    async def stop(self) -> None:
        """End everything at once."""
        for broker in self.brokers.values():
            if broker.running:
                broker.kill()


__all__ = ["PORT", "SimulatedBroker", "SimulatedCluster"]
