"""`Failover`: what a broker does when others come and go. It claims the controllership if there is no controller, and
elects leaders if it is the controller.

It wakes on changes of the image: no controller, a broker that came or went, partitions that were created while a broker
went or that are being reassigned, and topic properties that elections depend on. `LeaderElections.settle_leaders`
finds out itself what has to be done, so an unnecessary wake-up does no harm and a failure is simply tried again.

What lives elsewhere: the rules (`elections`), the decision in the store (`controller`), registration (`membership`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.controller.reassignment import is_moving
from kwire.cluster.metadata.image import ConfigResource

if TYPE_CHECKING:
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.controller.membership import Membership
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Delta, MetadataCache

RETRY_S: Final = 0.2

_logger = get_logger("kwire.cluster.failover")


class Failover:
    """Watches the image. All methods are called on the event loop."""

    def __init__(self, controller: Controller, membership: Membership, metadata: MetadataCache) -> None:
        self._controller = controller
        self._membership = membership
        self._metadata = metadata
        self._all = False
        self._registered = False
        self._topics: dict[str, None] = {}
        self._brokers: dict[int, None] = {}  # that came, went or began to leave
        self._known: Mapping[int, BrokerImage] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="failover")
        self._metadata.add_listener(self._on_image)

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        if delta.brokers:
            self._note_registration(self._membership.registered)
        known, self._known = self._known, image.brokers
        if image.controller_id == -1 or (self._controller.active and delta.controller):
            self._all = True
        elif self._controller.active:
            live = image.brokers
            if delta.brokers:
                self._brokers |= {each: None for each in (*known, *live) if known.get(each) != live.get(each)}
            for name in delta.changed:
                partitions = image.topics[name].partitions
                for index in delta.partitions[name]:
                    state = partitions[index]
                    if state.leader not in live or any(each not in live for each in state.isr) or is_moving(state):
                        self._topics[name] = None
                        break
            for resource, name in delta.configs:
                if resource == ConfigResource.BROKER:
                    self._all = True
                elif resource == ConfigResource.TOPIC and name in image.topics:
                    self._topics[name] = None
        if self._all or self._topics or self._brokers:
            self._wake.set()

    def _note_registration(self, registered: bool) -> None:
        """Report UnregisterBroker: only then is the registration gone while the session is alive."""
        if self._registered and not registered and self._membership.alive:
            _logger.error("this broker was unregistered: it takes no part in the cluster until it is restarted")
        self._registered = registered

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            everything, self._all = self._all, False
            topics, self._topics = self._topics, {}
            brokers, self._brokers = self._brokers, {}
            try:
                if self._metadata.image.controller_id == -1:
                    await self._membership.claim_controllership()
                    everything = True
                if self._controller.active:
                    await self._settle(everything, topics, brokers)
                elif self._metadata.image.controller_id == -1:
                    await self._again(everything, topics, brokers)
            except KafkaError as error:
                _logger.warning("leaders cannot be elected now", error=str(error))
                await self._again(everything, topics, brokers)
            except Exception as error:
                _logger.error("failover failed", exc_info=error)
                await self._again(everything, topics, brokers)

    async def _settle(self, everything: bool, topics: Collection[str], brokers: Collection[int]) -> None:
        """Settle all partitions, or those of some topics and those with a replica on some brokers."""
        leaders = self._controller.leaders
        if everything:
            count = await leaders.settle_leaders()
        else:
            count = await leaders.settle_leaders(brokers=brokers) if brokers else 0
            count += await leaders.settle_leaders(topics)
        if count:
            _logger.info("partitions have new leaders or in-sync replicas", partitions=count)

    async def _again(self, everything: bool, topics: dict[str, None], brokers: dict[int, None]) -> None:
        await asyncio.sleep(RETRY_S)
        self._all |= everything
        self._topics = {**topics, **self._topics}
        self._brokers = {**brokers, **self._brokers}
        self._wake.set()
