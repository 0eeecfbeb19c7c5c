"""Runs one shard on its partition: loads the log, runs operations, sends responses once they are committed.

The event loop serialises operations: each runs the shard, the append and the apply without interruption. An operation
that would take long takes several turns of the loop, and holds off all others of the shard until it is over
(`long_operations`). Only the response waits, until the high watermark has passed everything written before it, so that
no client sees state that may still be lost. All timers of a shard share one timer of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import at_once, fail
from kwire.base.logging import get_logger
from kwire.codec.errors import CodecError
from kwire.codec.records import ABORT, COMMIT, NO_PRODUCER_ID, RecordBatchBuilder, build_control_batch
from kwire.coordinator.runtime import log_loader
from kwire.coordinator.runtime.long_operations import EstimatedPace, OperationQueue, Steps, Turns
from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result, Waiter, append_error, settle
from kwire.coordinator.runtime.timers import Timers
from kwire.log.common.append_info import Origin

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

A = TypeVar("A")
R = TypeVar("R")
_log = get_logger("kwire.coordinator")

ALL_REPLICAS: Final = -1
TIMER_RETRY_MS: Final = 500
"""If the records of a timer could not be appended, the timer fires again after this time."""
RECORDS_PER_BATCH: Final = 1000
"""Expiry and deleted topics can yield any number of records. They are written in several batches, not atomically."""

TIMERS_PER_TURN: Final = 20
"""Timers of a shard that are handled in one turn of the event loop: all members of a group may expire at once."""

WRITTEN_PER_TURN: Final = 500
"""Of them, a long operation writes so many in one turn of the event loop: three or four milliseconds."""

ENCODED_US: Final = 4
APPLIED_US: Final = 8
"""What it takes to encode a record and to apply it, about."""


class Shard(Protocol):
    """A state machine that a runtime can run. It does no I/O and reads no clock."""

    timers: Timers

    def apply(
        self,
        key: bytes | memoryview,
        value: bytes | memoryview | None,
        offset: int,
        *,
        wall_ms: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Apply a record. ``producer_id`` is -1 outside transactions. Raises CodecError."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> Steps | None:
        """Apply a transaction marker; returns the steps that do so if it takes several."""

    def loaded(self, now: Instant) -> Result[None]:
        """The whole log was applied: start timers."""

    def unload(self) -> Result[None]:
        """This broker no longer leads the partition: answer all parked requests, stop all timers."""


S = TypeVar("S", bound=Shard)


class LogSettings(NamedTuple):
    """How a runtime writes its log: how long a response waits until its records are committed, and the type of
    compression."""

    commit_timeout_ms: int = 5000
    compression: int = 0


class Phase(Enum):
    """The phases of a shard while this broker leads its partition."""

    LOADING = "loading"
    ACTIVE = "active"
    OVER = "over"


_NOT_ACTIVE = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.OVER: ErrorCode.NOT_COORDINATOR,
}


class Runtime(Generic[S]):
    """Runs ``shard`` on ``partition`` until this broker no longer leads it. A later leadership gets a new runtime. The
    runtimes of a coordinator share ``turns``."""

    def __init__(
        self, shard: S, partition: Partition, doors: Doors, settings: LogSettings, turns: Turns | None = None
    ) -> None:
        self.shard = shard
        self.partition = partition
        self.phase = Phase.LOADING
        self._doors = doors
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._last_offset = -1
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._queue = OperationQueue(turns or Turns(), self._long_operations_over)

    # -- leadership ----------------------------------------------------------------------------------------------------

    @property
    def is_empty_log(self) -> bool:
        """Whether there is nothing to load."""
        return self.partition.log.log_start_offset >= self.partition.log.log_end_offset

    async def load(self) -> None:
        """Replay the log, then accept operations. If the log cannot be read, requests fail with NOT_COORDINATOR until
        this broker becomes the leader again."""
        try:
            count = await log_loader.load(self.partition, self._doors, self)
        except (KafkaError, CodecError, OSError) as error:
            _log.error("coordinator log cannot be read", partition=self.partition.index, error=str(error))
            self.phase = Phase.OVER
            return
        if self.phase is Phase.LOADING:
            _log.debug("coordinator loaded", partition=self.partition.index, batches=count)
            self.begin()

    def begin(self) -> None:
        """The log is loaded: accept operations."""
        self.phase = Phase.ACTIVE
        self._last_offset = self.partition.log.log_end_offset - 1
        self._run(self.shard.loaded)

    def end(self) -> None:
        """This broker no longer leads the partition: answer parked requests with NOT_COORDINATOR, stop timers.
        Idempotent."""
        if self.phase is Phase.OVER:
            return
        self.phase = Phase.OVER
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for waiter, response in self.shard.unload().replies:
            _resolve(waiter, response)

    def replay(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int) -> None:
        """Apply a record of the log. A record that cannot be parsed is logged as an error and skipped."""
        if key is None:
            return
        try:
            self.shard.apply(key, value, offset, wall_ms=self._doors.clock.time_ms(), producer_id=producer_id)
        except CodecError as error:
            _log.error("coordinator record skipped", partition=self.partition.index, offset=offset, error=str(error))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker of the log."""
        for _ in self.shard.end_transaction(producer_id, committed=committed) or ():
            continue

    # -- operations ----------------------------------------------------------------------------------------------------

    def perform(
        self, operation: Callable[[Instant], Result[A]], producer: tuple[int, int] | None = None
    ) -> A | asyncio.Future[A]:
        """Run an operation that does not park. Returns its response, or a future if records have to be committed first.

        If ``producer`` (id, epoch) is given, the records are part of that producer's transaction. Raises KafkaError:
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, an error of the shard, or a failed append (`append_error`).
        """
        if self._queue.held:
            return self._queue.wait(partial(self.perform, operation, producer))
        result, barrier = self._step(operation, producer)
        assert result.response is not None
        if barrier is None:
            return result.response
        waiter: asyncio.Future[A] = self._loop.create_future()
        self._after(barrier, [(waiter, result.response), *result.replies])
        return waiter

    def park(self, operation: Callable[[Waiter, Instant], Result[A]]) -> A | asyncio.Future[A]:
        """Run an operation that may park its request until a later operation. Raises as `perform` does."""
        if self._queue.held:
            return self._queue.wait(partial(self.park, operation))
        waiter: asyncio.Future[A] = self._loop.create_future()
        result, barrier = self._step(lambda now: operation(waiter, now))
        if barrier is not None:
            responses = result.replies if result.response is None else [(waiter, result.response), *result.replies]
            self._after(barrier, responses)
        elif result.response is not None:
            return result.response
        return waiter

    def perform_in_parts(self, operation: Callable[[Instant], Result[Any]]) -> int:
        """Run an operation that only writes, possibly many records. Failures are logged; the caller runs it again
        later. Returns how many records were written."""
        if self.phase is not Phase.ACTIVE:
            return 0
        return at_once(self._batches(operation(self._now()).records, RECORDS_PER_BATCH))

    @property
    def is_held(self) -> bool:
        """Whether an operation would have to wait for a long one."""
        return self._queue.held

    def perform_in_turns(
        self,
        operation: Callable[[Instant], Generator[None, None, Result[A]]],
        producer: tuple[int, int] | None = None,
    ) -> asyncio.Future[A]:
        """Run a long operation, which makes its result in steps. Its records are appended in one batch, and applied in
        steps. Returns its future response, or its KafkaError (as `perform`)."""
        waiter: asyncio.Future[A] = self._loop.create_future()
        self._queue.begin(self._respond(waiter, operation, producer))
        return waiter

    def write_in_turns(
        self, operation: Callable[[Instant], Generator[None, None, Result[Any]]]
    ) -> asyncio.Future[None]:
        """Run a long operation that only writes, in several batches (as `perform_in_parts`). Returns a future of its
        end."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._queue.begin(self._write(waiter, operation))
        return waiter

    def barrier(self) -> asyncio.Future[None] | None:
        """A future that completes when everything written so far is committed, or None if it already is."""
        return self.partition.wait_committed(self._last_offset)

    def _step(
        self, operation: Callable[[Instant], Result[A]], producer: tuple[int, int] | None = None
    ) -> tuple[Result[A], asyncio.Future[None] | None]:
        """Run, append, apply. If everything is committed, send the replies; else return the future of the commit."""
        if self.phase is not Phase.ACTIVE:
            raise KafkaError(_NOT_ACTIVE[self.phase])
        now = self._now()
        result = operation(now)
        if result.records:
            try:
                if producer is None:
                    settle(result, now, self._append, self._apply)
                else:
                    producer_id = producer[0]
                    settle(
                        result,
                        now,
                        partial(self._append, producer=producer),
                        partial(self._apply, producer_id=producer_id),
                    )
            except KafkaError as error:
                raise KafkaError(append_error(error.code), error.message) from error
        self._set_alarm()
        barrier = self.barrier()
        if barrier is None:
            for waiter, response in result.replies:
                _resolve(waiter, response)
        return result, barrier

    def _run(self, operation: Callable[[Instant], Result[Any]]) -> bool:
        """Run an operation without a request: a timer, loading, expiry. Returns whether the append succeeded."""
        try:
            result, barrier = self._step(operation)
        except KafkaError as error:
            _log.warning("coordinator could not write", partition=self.partition.index, error=str(error))
            return False
        if barrier is not None:
            self._after(barrier, result.replies)
        return True

    def _append(self, records: list[CoordinatorRecord], producer: tuple[int, int] | None = None) -> int:
        now_ms = self._doors.clock.time_ms()
        builder = self._builder(producer)
        for key, value in records:
            builder.append(now_ms, key, value)
        return self._append_batch(builder.build())

    def _builder(self, producer: tuple[int, int] | None = None) -> RecordBatchBuilder:
        compression = self._settings.compression
        if producer is None:
            return RecordBatchBuilder(compression=compression)
        return RecordBatchBuilder(
            compression=compression,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            is_transactional=True,
        )

    def _append_batch(self, data: bytes) -> int:
        batch = memoryview(bytearray(data))
        info = self.partition.append(batch, required_acks=ALL_REPLICAS, origin=Origin.COORDINATOR)
        self._last_offset = info.last_offset
        return info.first_offset

    def _apply(self, record: CoordinatorRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        self.shard.apply(record.key, record.value, offset, wall_ms=self._doors.clock.time_ms(), producer_id=producer_id)

    def write_marker(
        self, producer: tuple[int, int], *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None] | None:
        """Append the marker that ends a producer's transaction and apply it. Returns the future of its commit, or None
        if it is committed. KafkaError, raised at once or by the future: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
        or the log's own error."""
        if self._queue.held:
            write = partial(self.write_marker, producer, commit=commit, coordinator_epoch=coordinator_epoch)
            return self._queue.wait(write)
        if self.phase is not Phase.ACTIVE:
            raise KafkaError(_NOT_ACTIVE[self.phase])
        producer_id, producer_epoch = producer
        self._append_batch(
            build_control_batch(
                COMMIT if commit else ABORT,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp=self._doors.clock.time_ms(),
            )
        )
        steps = self.shard.end_transaction(producer_id, committed=commit)
        if steps is not None:
            self._queue.begin_next(self._ended(steps))
        return self.barrier()

    # -- long operations -----------------------------------------------------------------------------------------------

    def _respond(
        self,
        waiter: asyncio.Future[A],
        operation: Callable[[Instant], Generator[None, None, Result[A]]],
        producer: tuple[int, int] | None,
    ) -> Steps:
        """Respond to the request of a long operation."""
        try:
            result = yield from self._while_active(self._settled(operation, producer))
        except Exception as error:
            fail(waiter, error)
            return
        barrier = self.barrier()
        if barrier is None:
            _resolve(waiter, result.response)
        else:
            self._after(barrier, [(waiter, result.response)])

    def _ended(self, steps: Steps) -> Steps:
        """End a transaction, unless the leadership does. The marker is written, and whatever asks waits."""
        with suppress(KafkaError):
            yield from self._while_active(steps)

    def _write(
        self, waiter: asyncio.Future[None], operation: Callable[[Instant], Generator[None, None, Result[Any]]]
    ) -> Steps:
        """Write the records of a long operation in parts."""
        try:
            yield from self._while_active(self._parts(operation))
        except Exception as error:
            _log.warning("coordinator could not write", partition=self.partition.index, error=str(error))
        _resolve(waiter, None)

    def _while_active(self, steps: Generator[None, None, R]) -> Generator[None, None, R]:
        """Steps that end with NOT_COORDINATOR as soon as this broker no longer leads the partition: its shard and its
        log are another's then."""
        while True:
            if self.phase is not Phase.ACTIVE:
                steps.close()
                raise KafkaError(_NOT_ACTIVE[self.phase])
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            yield

    def _settled(
        self,
        operation: Callable[[Instant], Generator[None, None, Result[A]]],
        producer: tuple[int, int] | None,
    ) -> Generator[None, None, Result[A]]:
        """What `settle` does, in steps: the records become one batch, and are applied once it is in the log."""
        result = yield from operation(self._now())
        records, pace = result.records, EstimatedPace()
        if not records:
            return result
        builder, now_ms = self._builder(producer), self._doors.clock.time_ms()
        for key, value in records:
            builder.append(now_ms, key, value)
            if pace.spent(ENCODED_US):
                yield
        yield
        try:
            offset = self._append_batch(builder.build())
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error
        yield
        producer_id = NO_PRODUCER_ID if producer is None else producer[0]
        for position, record in enumerate(records):
            self._apply(record, offset + position, producer_id)
            if pace.spent(APPLIED_US):
                yield
        return result

    def _parts(self, operation: Callable[[Instant], Generator[None, None, Result[Any]]]) -> Steps:
        records = (yield from operation(self._now())).records
        yield from self._batches(records, WRITTEN_PER_TURN)

    def _batches(self, records: list[CoordinatorRecord], size: int) -> Generator[None, None, int]:
        """Write records, ``size`` of them in a batch and a step; how many were written."""
        written = 0
        for start in range(0, len(records), size):
            if start:
                yield
            part: Result[Any] = Result()
            part.records = some = records[start : start + size]
            if self._run(lambda _, part=part: part):  # type: ignore[misc]
                written += len(some)
        return written

    def _long_operations_over(self) -> None:
        if self.phase is Phase.ACTIVE:
            self._set_alarm()

    # -- responses that wait for a commit ------------------------------------------------------------------------------

    def _after(self, barrier: asyncio.Future[None], responses: list[tuple[Waiter, Any]]) -> None:
        timeout_s = self._settings.commit_timeout_ms / 1000
        late = self._loop.call_later(timeout_s, _refuse, responses, ErrorCode.COORDINATOR_NOT_AVAILABLE)

        def committed(done: asyncio.Future[None]) -> None:
            late.cancel()
            error = None if done.cancelled() else done.exception()
            if error is None and not done.cancelled():
                for waiter, response in responses:
                    _resolve(waiter, response)
            else:
                _refuse(responses, ErrorCode.NOT_COORDINATOR)

        barrier.add_done_callback(committed)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _now(self) -> Instant:
        return Instant(int(self._loop.time() * 1000), self._doors.clock.time_ms())

    def _set_alarm(self) -> None:
        wake_ms = self.shard.timers.next_wake_ms()
        if wake_ms is None or (self._alarm is not None and self._alarm_ms <= wake_ms):
            return  # an alarm that fires too early sets the next one
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = wake_ms
        self._alarm = self._loop.call_at(wake_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        if self._queue.held:
            return  # the end of the long operation sets the next one
        now_ms = max(int(self._loop.time() * 1000), self._alarm_ms)
        for _ in range(TIMERS_PER_TURN):
            due = self.shard.timers.pop_due(now_ms) if self.phase is Phase.ACTIVE else None
            if due is None:
                break
            key, action = due
            done = self._run(lambda now, action=action: _timed(action, now))  # type: ignore[misc]
            if not done and key not in self.shard.timers:  # without it the member would never expire
                self.shard.timers.schedule(key, now_ms + TIMER_RETRY_MS, action)
        if self.phase is Phase.ACTIVE:
            self._set_alarm()


def _timed(action: Callable[[Result[Any], Instant], None], now: Instant) -> Result[Any]:
    out: Result[Any] = Result()
    action(out, now)
    return out


def _resolve(waiter: asyncio.Future[Any], response: Any) -> None:
    if not waiter.done():  # a done future: the client has disconnected
        waiter.set_result(response)


def _refuse(responses: list[tuple[Waiter, Any]], error: ErrorCode) -> None:
    for waiter, _ in responses:
        fail(waiter, KafkaError(error))
