"""A share partition at the partition's leader: the machine of `kwire.share`, bound to the log, the persister and time.

Its state is read from the share coordinator at its first use. Every change is written before whoever asked for it gets
an answer, and is undone if that fails. It is *dropped* when this broker stops leading the partition, when the topic is
deleted, and when the coordinator refuses a write because somebody else is responsible by now; whoever needs it next
makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.base.config.values import duration_s
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.read_share_group_state_request import PartitionData as ReadPartition
from kwire.codec.messages.read_share_group_state_request import ReadShareGroupStateRequest, ReadStateData
from kwire.codec.messages.write_share_group_state_request import PartitionData as WrittenPartition
from kwire.codec.messages.write_share_group_state_request import StateBatch as WrittenBatch
from kwire.codec.messages.write_share_group_state_request import WriteShareGroupStateRequest, WriteStateData
from kwire.handlers.share.settings import EARLIEST, LATEST, ShareSettings
from kwire.handlers.share.writing import StateWriter
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, PersistedState, RecordState, StateBatch

if TYPE_CHECKING:
    from kwire.base.doors import Clock
    from kwire.cluster.replication.partition import Partition
    from kwire.codec.messages.read_share_group_state_response import ReadShareGroupStateResponse
    from kwire.codec.messages.write_share_group_state_response import WriteShareGroupStateResponse
    from kwire.handlers.share.metrics import ShareMetrics

NOT_PERSISTED: Final = -1
"""The start offset of a share partition from which nothing has been delivered yet."""

_COORDINATOR: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_DROPPING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class ReadsAndWrites(Protocol):
    """What share partitions need of the persister."""

    async def read(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """Read the state of share partitions."""

    async def write(self, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        """Write the state of share partitions."""


class Waiting(Protocol):
    """A fetch that waits for records of a share partition."""

    def try_again(self) -> None:
        """There may be records now."""


class Environment:
    """What all share partitions of a broker use. ``spawn`` runs a coroutine in the background and keeps it alive;
    ``dropped`` is called with a share partition that must not be used any more."""

    def __init__(
        self,
        persister: Callable[[], ReadsAndWrites],
        settings: Callable[[str], ShareSettings],
        clock: Clock,
        metrics: ShareMetrics,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        dropped: Callable[[LeaderSharePartition], None],
    ) -> None:
        self.persister = persister
        self.settings = settings
        self.clock = clock
        self.metrics = metrics
        self.spawn = spawn
        self.dropped = dropped

    def now_ms(self) -> int:
        """The time by which locks end."""
        return int(self.clock.monotonic() * 1000)


class LeaderSharePartition:
    """One share partition. ``machine`` is None until its state has been read; ``failure``: why it cannot be used;
    ``expired_locks``: how many records came back because their lock had ended. ``former``: the same share partition as
    it was used before, whose last changes may not be written yet; the state is read after that."""

    def __init__(
        self,
        group_id: str,
        topic_id: bytes,
        partition: Partition,
        environment: Environment,
        former: LeaderSharePartition | None = None,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.machine: SharePartition | None = None
        self.failure: KafkaError | None = None
        self.expired_locks = 0
        self._environment = environment
        self._waiting: dict[Waiting, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._writer = StateWriter(self._send, self._written, environment.spawn)
        partition.on_change(self._on_change)
        environment.spawn(self._load(former))

    @property
    def settings(self) -> ShareSettings:
        """The group's present configuration."""
        return self._environment.settings(self.group_id)

    @property
    def lag(self) -> int:
        """Records that are still to be delivered and acknowledged (KIP-1226); -1 while that is not known."""
        machine = self.machine
        if machine is None:
            return -1
        return max(self.partition.high_watermark - machine.start_offset - machine.delivery_complete_count, 0)

    # -- loading and leaving -------------------------------------------------------------------------------------------

    @property
    def is_writing(self) -> bool:
        """Whether a change is not written yet."""
        return self._writer.is_writing

    async def written(self) -> None:
        """Return when all changes are written, or could not be."""
        await self._writer.idle()

    async def _load(self, former: LeaderSharePartition | None) -> None:
        if former is not None:
            await former.written()
        clock = self._environment.clock
        begun_s = clock.monotonic()
        try:
            self.machine = SharePartition(lambda: self.settings.limits, await self._read())
        except Exception as error:
            self.drop(error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._environment.metrics.load_us.record(int((clock.monotonic() - begun_s) * 1_000_000))
        self._arm()
        for fetch in list(self._waiting):  # also those that take what is there, be it nothing (min_bytes 0)
            fetch.try_again()

    async def _read(self) -> PersistedState:
        asked = ReadPartition(partition=self.partition.index, leader_epoch=self.leader_epoch)
        request = ReadShareGroupStateRequest(
            group_id=self.group_id, topics=[ReadStateData(topic_id=self.topic_id, partitions=[asked])]
        )
        response = await self._environment.persister().read(request)
        for topic in response.results:
            for result in topic.partitions:
                if topic.topic_id == self.topic_id and result.partition == asked.partition:
                    _raise_for(result.error_code, result.error_message)
                    return PersistedState(
                        result.state_epoch,
                        self._start(result.start_offset),
                        [
                            StateBatch(
                                batch.first_offset,
                                batch.last_offset,
                                RecordState(batch.delivery_state),
                                batch.delivery_count,
                            )
                            for batch in result.state_batches
                        ],
                    )
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The share coordinator did not return the share partition.")

    def _start(self, persisted: int) -> int:
        """The start offset: the persisted one, or by the group's `share.auto.offset.reset`."""
        if persisted != NOT_PERSISTED:
            return persisted
        self.partition.require_leader()
        reset, log = self.settings.offset_reset, self.partition.log
        upto = self.partition.high_watermark
        if reset == EARLIEST:
            return log.earliest().offset
        if reset == LATEST:
            return upto
        since_ms = self._environment.clock.time_ms() - int((duration_s(reset) or 0) * 1000)
        found = log.offset_for_timestamp(since_ms, upto=upto)
        return upto if found is None else found.offset

    def drop(self, error: KafkaError) -> None:
        """Use this share partition no more. Fetches that wait for it are told so."""
        if self.failure is not None:
            return
        self.failure = error
        self.partition.off_change(self._on_change)
        if self._timer is not None:
            self._timer.cancel()
        self._environment.dropped(self)
        self._wake_soon()

    def _on_change(self) -> None:
        """The partition got records, or this broker leads it no more."""
        try:
            self.partition.require_leader(self.leader_epoch)
        except KafkaError as error:
            self.drop(_as_leader_change(error))
            return
        self.wake()

    # -- waiting fetches -----------------------------------------------------------------------------------------------

    def wait(self, fetch: Waiting) -> None:
        """Have a fetch try again when there may be records, until `stop_waiting`."""
        self._waiting[fetch] = None

    def stop_waiting(self, fetch: Waiting) -> None:
        """A fetch no longer waits."""
        self._waiting.pop(fetch, None)

    def has_records(self) -> bool:
        """Whether a fetch could acquire something, or must be told of a failure."""
        machine = self.machine
        if self.failure is not None:
            return True
        if machine is None or not machine.can_acquire():
            return False
        partition = self.partition
        upto = partition.last_stable_offset if self.settings.committed_only else partition.high_watermark
        return machine.next_fetch_offset() < upto

    def wake(self) -> None:
        """Have the waiting fetches try again, those that have waited longest first, as long as there are records."""
        for fetch in list(self._waiting):
            if not self.has_records():
                return
            fetch.try_again()

    def _wake_soon(self) -> None:
        if self._waiting:
            asyncio.get_running_loop().call_soon(self.wake)

    # -- what members do -----------------------------------------------------------------------------------------------

    def acquired(self) -> None:
        """Records were acquired: their locks will end."""
        self._arm()

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> asyncio.Future[KafkaError | None] | KafkaError | None:
        """Apply what a member acknowledges: None (or the error) at once, or when the change has been written."""
        if self.machine is None:
            return self.failure or KafkaError(ErrorCode.INVALID_RECORD_STATE)
        try:
            write = self.machine.acknowledge(member_id, acknowledgements, self._environment.now_ms())
        except KafkaError as error:
            self._wake_soon()
            return error
        self._arm()
        return None if write is None else self._writer.write(write)

    def release(self, member_id: str) -> None:
        """Release what a member has acquired: its session has ended."""
        if self.machine is not None:
            write = self.machine.release(member_id)
            if write is not None:
                self._writer.write(write)

    def _written(self, write: Write, error: KafkaError | None) -> None:
        machine = self.machine
        assert machine is not None
        complete = machine.committed if error is None else machine.failed
        complete(write, self._environment.now_ms())
        self._arm()
        if error is not None and error.code in _DROPPING:
            self.drop(error)
        else:
            self._wake_soon()

    async def _send(self, writes: Sequence[Write]) -> None:
        machine = self.machine
        assert machine is not None
        written = WrittenPartition(
            partition=self.partition.index,
            state_epoch=machine.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=machine.start_offset,
            delivery_complete_count=machine.delivery_complete_count,
            state_batches=[
                WrittenBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.state,
                    delivery_count=batch.delivery_count,
                )
                for write in writes
                for batch in write.batches
            ],
        )
        request = WriteShareGroupStateRequest(
            group_id=self.group_id, topics=[WriteStateData(topic_id=self.topic_id, partitions=[written])]
        )
        response = await self._environment.persister().write(request)
        for topic in response.results:
            for result in topic.partitions:
                if topic.topic_id == self.topic_id and result.partition == written.partition:
                    _raise_for(result.error_code, result.error_message)
                    return
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The share coordinator did not return the share partition.")

    # -- locks ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Have the next lock end in time: one timer, which is set again only if a lock ends earlier."""
        deadline_ms = None if self.machine is None or self.failure else self.machine.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(deadline_ms - self._environment.now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s + 0.001, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self.machine is None or self.failure is not None:
            return
        write = self.machine.expire(self._environment.now_ms())
        if write is not None:
            self.expired_locks += sum(batch.last_offset - batch.first_offset + 1 for batch in write.batches)
            self._writer.write(write)
        self._arm()
        self._wake_soon()


def _as_leader_change(error: KafkaError) -> KafkaError:
    """What a client is told whose share partition had an earlier leader epoch."""
    changed = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) if error.code in changed else error


def _raise_for(code: int, message: str | None) -> None:
    """Raise what members are told for an error of the share coordinator; nothing for 0."""
    if code == ErrorCode.NONE:
        return
    error = ErrorCode(code)
    if error in _COORDINATOR:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    if error in _FENCED:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise KafkaError(error, message)
    if error in (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
        message = "Unable to complete operation due to server error."
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
