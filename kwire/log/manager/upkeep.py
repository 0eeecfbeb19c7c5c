"""What is done with all logs again and again: retention, `flush.ms`, producers that expire. Some logs have their turn
in each step, so that others get theirs in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from kwire.base.doors import Clock
from kwire.base.errors import KafkaError
from kwire.base.futures import Pace
from kwire.log.common.environment import logger
from kwire.log.common.log_config import INT64_MAX
from kwire.log.partition.partition_log import PartitionLog

LOGS_PER_STEP = 500
"""So many logs are looked at in one turn of the event loop at most."""

SETTINGS_PER_STEP = 5000
"""The same if only a setting is looked at: a third of a millisecond."""

SEGMENTS_AT_ONCE = 10
"""Retention removes so many segments of a log before others have their turn: a log may have thousands that have
expired. Each takes four renames."""


def apply_retention(logs: Collection[PartitionLog], clock: Clock) -> Iterator[None]:
    """Remove expired segments."""
    return _with_each("retention", logs, clock, _remove_expired_segments)


def _remove_expired_segments(log: PartitionLog) -> bool:
    return log.delete_old_segments(SEGMENTS_AT_ONCE) == SEGMENTS_AT_ONCE


def flush(logs: Collection[PartitionLog], clock: Clock) -> Iterator[None]:
    """Sync the logs whose `flush.ms` is over. Few topics have that setting, so it is looked at first."""
    several, found = list(logs), []
    for start in range(0, len(several), SETTINGS_PER_STEP):
        found += [each for each in several[start : start + SETTINGS_PER_STEP] if each.config.flush_ms != INT64_MAX]
        yield
    yield from _with_each("flush", found, clock, partial(_flush_if_due, clock))


def _flush_if_due(clock: Clock, log: PartitionLog) -> bool:
    if log.config.flush_ms <= clock.time_ms() - log.flusher.last_flush_ms:
        log.flush()
    return False


def expire_producers(logs: Collection[PartitionLog], clock: Clock) -> Iterator[None]:
    """Forget idempotent producers that have not written for a while."""
    return _with_each("producers", logs, clock, partial(_expire_producers, clock))


def _expire_producers(clock: Clock, log: PartitionLog) -> bool:
    log.producer_state.remove_expired(clock.time_ms())
    return False


def _with_each(
    name: str, logs: Iterable[PartitionLog], clock: Clock, action: Callable[[PartitionLog], bool]
) -> Iterator[None]:
    """Do something with each open log. ``action``: whether there is more to do."""
    pace = Pace(clock.perf_counter, LOGS_PER_STEP)
    for log in list(logs):
        goes_on = True
        while goes_on and not log.closed:
            try:
                goes_on = action(log)
            except KafkaError as error:
                goes_on = False
                logger.error(f"{name} failed", partition=log.name, error=str(error))
            if pace.is_over():
                yield
                pace.begin()
