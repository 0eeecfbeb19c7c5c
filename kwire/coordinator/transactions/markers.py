"""Writing the markers that end a transaction to the partitions that were part of it.

On this broker a marker is one append; where other brokers lead partitions, WriteTxnMarkers carries it there. The
offsets topic is special: its coordinator must see the marker, too. Who decides that a transaction ends, and what
happens when all markers are committed: `transaction_coordinator`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.records import ABORT, COMMIT, build_control_batch
from kwire.coordinator.groups.coordinator import OFFSETS_TOPIC
from kwire.coordinator.transactions.records import Partition
from kwire.coordinator.transactions.remote_markers import Marker, RemoteMarkers
from kwire.log.common.append_info import Origin

if TYPE_CHECKING:
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.coordinator.groups.coordinator import GroupCoordinator

_ALL_REPLICAS = -1


class MarkerWriter:
    """Writes markers to the partitions that this broker leads, and has others write theirs."""

    def __init__(
        self, doors: Doors, replicas: ReplicaManager, groups: GroupCoordinator, remote: RemoteMarkers | None = None
    ) -> None:
        self._remote = remote
        self._clock = doors.clock
        self._replicas = replicas
        self._groups = groups

    def write(
        self, marker: Marker, partitions: Iterable[Partition], *, here: bool = False
    ) -> tuple[dict[Partition, ErrorCode], dict[Partition, asyncio.Future[None]]]:
        """Append to every partition. The errors of all (NONE where it is in the log, or on its way to another broker),
        and the commits that are still to be waited for. ``here``: only to partitions that this broker leads."""
        errors: dict[Partition, ErrorCode] = {}
        commits: dict[Partition, asyncio.Future[None]] = {}
        elsewhere: dict[int, list[Partition]] = {}
        for partition in partitions:
            leader = None if here or self._remote is None else self._remote.leader_of(partition)
            if leader is not None:
                errors[partition] = ErrorCode.NONE
                elsewhere.setdefault(leader, []).append(partition)
                continue
            try:
                commit = self._write_one(marker, *partition)
            except KafkaError as error:
                errors[partition] = error.code
                continue
            errors[partition] = ErrorCode.NONE
            if commit is not None:
                commits[partition] = commit
        if self._remote is not None:
            for leader, theirs in elsewhere.items():
                commits.update(self._remote.send(leader, marker, theirs))
        return errors, commits

    def _write_one(self, marker: Marker, topic: str, index: int) -> asyncio.Future[None] | None:
        partition = self._replicas.partition(topic, index)
        partition.require_leader()
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka answers what is no producer
        partition.log.producer_state.check_marker_epoch(marker.producer_id, marker.producer_epoch, marker.version)
        if topic == OFFSETS_TOPIC:
            return self._groups.write_marker(
                index, marker[:2], commit=marker.commit, coordinator_epoch=marker.coordinator_epoch
            )
        batch = build_control_batch(
            COMMIT if marker.commit else ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.time_ms(),
        )
        info = partition.append(memoryview(bytearray(batch)), required_acks=_ALL_REPLICAS, origin=Origin.COORDINATOR)
        return partition.wait_committed(info.last_offset)


async def committed(commits: dict[Partition, asyncio.Future[None]]) -> dict[Partition, ErrorCode]:
    """How the commits of markers end."""
    if commits:
        await asyncio.wait(commits.values())
    outcome = {}
    for partition, commit in commits.items():
        error = commit.exception()
        outcome[partition] = error.code if isinstance(error, KafkaError) else ErrorCode.NONE
    return outcome
