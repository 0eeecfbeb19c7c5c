"""Writes the markers that end a transaction to its partitions.

On partitions that this broker leads, a marker is one append. The others get it by WriteTxnMarkers
(`transactions.remote_markers`). Markers for the offsets topic go through the group coordinator, which applies them.
`transactions.coordinator` decides when a transaction ends and what happens when all markers are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.records import ABORT, COMMIT, build_control_batch
from kwire.coordinator.transactions.remote_markers import Marker, RemoteMarkers
from kwire.log.common.append_info import Origin

if TYPE_CHECKING:
    from kwire.cluster.replication.replica_manager import ReplicaManager

_ALL_REPLICAS = -1


class OffsetMarkers(Protocol):
    """Writes markers to the offsets topic. The group coordinator does: its state changes with them."""

    def write_marker(
        self, index: int, producer: tuple[int, int], *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None] | None:
        """Append the marker of a producer (id, epoch) to one partition of `OFFSETS_TOPIC`. Returns the future of its
        commit, or None if it is committed already. Raises KafkaError."""


class MarkerWriter:
    """Writes markers to the partitions that this broker leads, and sends the others to their leaders."""

    def __init__(self, doors: Doors, replicas: ReplicaManager, groups: OffsetMarkers, remote: RemoteMarkers) -> None:
        self._remote = remote
        self._clock = doors.clock
        self._replicas = replicas
        self._groups = groups

    def write(
        self, marker: Marker, partitions: Iterable[TopicPartition], *, here: bool = False
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, asyncio.Future[None]]]:
        """Write a marker to every partition. Returns the errors of all partitions (NONE if the marker is in the log or
        was sent to another broker), and the futures of the commits that are not complete yet. ``here``: write only to
        partitions that this broker leads."""
        errors: dict[TopicPartition, ErrorCode] = {}
        commits: dict[TopicPartition, asyncio.Future[None]] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = None if here else self._remote.leader_of(partition)
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
        for leader, theirs in elsewhere.items():
            commits.update(self._remote.send(leader, marker, theirs))
        return errors, commits

    def _write_one(self, marker: Marker, topic: str, index: int) -> asyncio.Future[None] | None:
        partition = self._replicas.partition(topic, index)
        partition.require_leader()
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's error for an invalid producer id
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


async def committed(commits: dict[TopicPartition, asyncio.Future[None]]) -> dict[TopicPartition, ErrorCode]:
    """Wait for the commits of markers. Returns the error of each partition, or NONE."""
    if commits:
        await asyncio.wait(commits.values())
    outcome = {}
    for partition, commit in commits.items():
        error = commit.exception()
        outcome[partition] = error.code if isinstance(error, KafkaError) else ErrorCode.NONE
    return outcome
