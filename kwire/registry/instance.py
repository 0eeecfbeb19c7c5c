"""`Instance`: one registry of several. Reads come from its own state; a write is done here if it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kwire.base.logging import get_logger
from kwire.cli.connection.errors import CommandError
from kwire.registry import failures
from kwire.registry.election import Election, Identity
from kwire.registry.operations.registering import Registering
from kwire.registry.operations.requests import Change
from kwire.registry.operations.schemas import Schemas
from kwire.registry.rights import Forbidden
from kwire.registry.store.state import State
from kwire.registry.topic import Fenced, Place, TooLarge, TopicReader, TopicWriter, ensure_topic

_log = get_logger("kwire.registry")
_PAUSE_S: Final = 0.2
_RENEWAL_S: Final = 600.0


class Written(NamedTuple):
    """A change that is in the topic. ``next_offset``: the offset after it."""

    answer: Any
    next_offset: int


class Instance:
    """An instance. `start`, then `close`."""

    def __init__(self, place: Place, group: str, identity: Identity) -> None:
        self.state = State()
        self.schemas = Schemas(self.state)
        self.registering = Registering(self.state, self.schemas)
        self.group = group
        self.identity = identity
        self.leader: Identity | None = None
        """Who leads, as far as this instance knows."""
        self._place = place
        self._reader = TopicReader(place, self.state.apply, self._refuse)
        self._election = Election(place, group, identity, self._elected, self._refuse)
        self._writer: TopicWriter | None = None
        self._writing = asyncio.Lock()
        self._known = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._leading: asyncio.Task[None] | None = None
        self._refusal: asyncio.Future[Forbidden] | None = None
        """While this instance starts: for the first right that it lacks."""

    async def start(self) -> None:
        """Create the topic if need be, read it, and take part in the election; return when all that the topic has is
        read, and it is known who leads. `CommandError`."""
        end = await ensure_topic(self._place)
        self._refusal = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._reader.run()), asyncio.create_task(self._election.run())]
        begun = asyncio.create_task(self._begun(end))
        try:
            waiting: set[asyncio.Future[Any]] = {begun, self._refusal}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._refusal.done():
                raise self._refusal.result()
            await begun
        except BaseException:
            begun.cancel()
            await self.close()
            raise
        finally:
            self._refusal = None

    async def _begun(self, end: int) -> None:
        try:
            await self._reader.reach(end)
            await self._until_leader()
        except TimeoutError:
            raise CommandError("no instance leads: the cluster does not keep the group or the topic") from None

    def _refuse(self, error: Forbidden) -> None:
        """A right is missing: end a start, or go on with what can be done until somebody grants it."""
        if self._refusal is None:
            _log.warning("the cluster forbids what the registry needs", error=str(error))
        elif not self._refusal.done():
            self._refusal.set_result(error)

    async def close(self) -> None:
        """Leave the group and end all connections."""
        for task in (*self._tasks, *([self._leading] if self._leading else [])):
            task.cancel()
        await self._election.leave()
        if self._writer is not None:
            self._writer.close()

    @property
    def leads(self) -> bool:
        """Whether this instance has been elected."""
        return self.leader == self.identity

    def _elected(self, leader: Identity | None) -> None:
        if leader is None:
            return  # writes go on meanwhile: the fence decides
        if leader != self.leader:
            _log.info("elected", leader=leader.url)
        self.leader = leader
        if self._leading is not None:
            self._leading.cancel()
            self._leading = None
        if not self.leads and self._writer is not None:
            self._writer.close()
            self._writer = None
        self._leading = asyncio.create_task(self._lead() if self.leads else self._notify())

    async def _notify(self) -> None:
        async with self._known:
            self._known.notify_all()

    async def _lead(self) -> None:
        """Get a writer and keep one, as long as this instance is elected."""
        while True:
            if self._writer is None:
                await self._take_over()
            await asyncio.sleep(_RENEWAL_S if self._writer is not None else _PAUSE_S)
            await self._confirm()

    async def _take_over(self) -> None:
        """Fence earlier leaders, and read what they have written."""
        try:
            writer, offset = await TopicWriter.open(self._place, self.group)
            try:
                await self._reader.reach(offset + 1)
            except TimeoutError:
                writer.close()
                raise
        except Forbidden as error:
            self._refuse(error)
            return
        except (CommandError, Fenced, TimeoutError) as error:
            _log.warning("this instance cannot lead yet", error=str(error) or type(error).__name__)
            return
        _log.info("leads", offset=offset)
        self._writer = writer
        await self._notify()

    async def _confirm(self) -> None:
        """Keep the transactional id from being forgotten while nothing is written."""
        async with self._writing:
            writer = self._writer
            if writer is None:
                return
            try:
                await writer.renew(_RENEWAL_S)
            except (CommandError, Fenced) as error:
                self._give_up(writer, error)

    def _give_up(self, writer: TopicWriter, error: Exception) -> None:
        """Write no more with a writer; if still elected, lead anew."""
        _log.warning("this term of leading ends", error=str(error))
        writer.close()
        if self._writer is writer:
            self._writer = None
        if self.leads:
            if self._leading is not None:
                self._leading.cancel()
            self._leading = asyncio.create_task(self._lead())

    async def _until_leader(self) -> None:
        """Wait until it is known who leads, and, if it is this instance, until it can write. TimeoutError."""
        async with asyncio.timeout(self._place.timeout_s * 2), self._known:
            await self._known.wait_for(lambda: self.leader is not None and (self._writer is not None or not self.leads))

    async def leader_ready(self) -> Identity:
        """Who leads; if it is this instance, once it can write. `Refusal` if that takes too long."""
        try:
            await self._until_leader()
        except TimeoutError:
            raise failures.no_leader("No instance leads at the moment") from None
        assert self.leader is not None
        return self.leader

    async def write(self, operation: Callable[[], Change]) -> Written:
        """Do an operation and write its records; they are in this instance's state afterwards. `Refusal`."""
        async with self._writing:
            writer = self._writer
            if writer is None:
                raise failures.no_leader("This instance does not lead any more")
            change = operation()
            if not change.records:
                return Written(change.answer, self._reader.next_offset)
            try:
                offset = await writer.append(change.records)
                await self._reader.reach(offset + len(change.records))
            except TooLarge as error:
                raise failures.too_large(f"Write failed because schema is too large: {error}") from None
            except Fenced as error:
                self._give_up(writer, error)
                raise failures.no_leader(f"Another instance leads: {error}") from None
            except CommandError as error:
                self._give_up(writer, error)
                raise failures.timed_out(f"Write to the Kafka store timed out or failed: {error}") from None
            except TimeoutError:
                raise failures.timed_out("The write is in the Kafka store, but has not been read back") from None
            return Written(change.answer, offset + len(change.records))

    async def reach(self, offset: int) -> None:
        """Wait until the state has what another instance has written. `Refusal`."""
        try:
            await self._reader.reach(offset)
        except TimeoutError:
            raise failures.timed_out("The leader has written, but this instance has not read it yet") from None
