"""Tiny file systems that tests fill and unmount, and a client that remembers the acknowledged records."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import HEADER_SIZE, LOG_OVERHEAD, RecordBatchBuilder, iter_records, parse_header

STORAGE_ERROR = 56


class Volume:
    """A mounted file system of a few MiB. ``kind``: "tmpfs", or "ext4" in a file, through a loop device."""

    def __init__(self, kind: str, path: Path, size_mib: int) -> None:
        self.kind = kind
        self.path = path
        self._image = path.with_suffix(".image")
        self._size_mib = size_mib
        path.mkdir(parents=True)
        if kind == "ext4":
            with open(self._image, "wb") as image:
                image.truncate(size_mib << 20)
            _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount the file system."""
        if self.kind == "ext4":
            _run("mount", "-o", "loop", str(self._image), str(self.path))
        else:
            _run("mount", "-t", "tmpfs", "-o", f"size={self._size_mib}m", "tmpfs", str(self.path))

    def unmount(self) -> None:
        """Unmount it while files are open in it."""
        subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)

    def fill(self, leave_bytes: int = 0) -> None:
        """Use up the space except for ``leave_bytes``."""
        with contextlib.suppress(OSError), open(self.path / "ballast", "ab", buffering=0) as ballast:
            while (free := shutil.disk_usage(self.path).free - leave_bytes) > 0:
                ballast.write(bytes(min(free, 1 << 20)))

    def free(self) -> None:
        """Free the space again."""
        (self.path / "ballast").unlink(missing_ok=True)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{command[0]} is not installed: {error}")
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here (that takes root): {done.stderr.strip()}")


class Account:
    """A client that writes to partitions of one topic and remembers the acknowledged records in order."""

    def __init__(self, bootstrap: str, topic: str = "t") -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.wire = WireClient(bootstrap)
        self.acknowledged: dict[int, dict[int, bytes]] = {}
        self._count = 0

    def reconnect(self) -> None:
        """Open a new connection to the broker."""
        self.wire.close()
        self.wire = WireClient(self.bootstrap)

    def create(self, partitions: int = 1, name: str | None = None, **configs: str) -> int:
        """Create the topic; returns the error code."""
        properties = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name or self.topic, num_partitions=partitions, replication_factor=1, configs=properties
        )
        response = self.wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        code: int = response.topics[0].error_code
        return code

    def write(self, partition: int = 0, size: int = 1000, topic: str | None = None) -> int:
        """Write one record; returns the error code."""
        self._count += 1
        value = self._count.to_bytes(8, "big") + bytes(size - 8)
        builder = RecordBatchBuilder()
        builder.append(int(time.time() * 1000), b"%d" % partition, value)
        data = PartitionProduceData(index=partition, records=memoryview(bytearray(builder.build())))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic or self.topic, partition_data=[data])],
        )
        response = self.wire.call(request, 9).responses[0].partition_responses[0]
        if response.error_code == 0 and topic is None:
            self.acknowledged.setdefault(partition, {})[response.base_offset] = value
        code: int = response.error_code
        return code

    def read(self, partition: int = 0) -> dict[int, bytes] | int:
        """All records by offset, or the error code."""
        found: dict[int, bytes] = {}
        while True:
            response = self._fetch(partition, len(found))
            if response.error_code:
                code: int = response.error_code
                return code
            records = [record for record in _records(response.records) if record[0] >= len(found)]
            found.update(records)
            if not records or len(found) >= response.high_watermark:
                return found

    def _fetch(self, partition: int, offset: int) -> Any:
        requested = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=[requested])],
        )
        return self.wire.call(request, 11).responses[0].partitions[0]

    def check(self, partition: int = 0) -> None:
        """The partition has the acknowledged records and at most one more (a write may end without a response)."""
        found = self.read(partition)
        assert isinstance(found, dict), f"error {found}"
        acknowledged = self.acknowledged.get(partition, {})
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
        assert list(found) == list(range(len(found)))

    def leaders(self, topic: str | None = None) -> list[tuple[int, int, list[int]]]:
        """(error code, leader, offline replicas) of each partition."""
        requested = [MetadataRequestTopic(name=topic or self.topic)]
        response = self.wire.call(MetadataRequest(topics=requested, allow_auto_topic_creation=False), 9)
        return [(each.error_code, each.leader_id, each.offline_replicas) for each in response.topics[0].partitions]


def _records(data: Any) -> list[tuple[int, bytes]]:
    """The records of all complete batches; the last batch may be incomplete."""
    view, found = memoryview(data or b""), []
    while len(view) >= LOG_OVERHEAD:
        size = parse_header(view).size if len(view) >= HEADER_SIZE else len(view) + 1
        if size > len(view):
            break
        found += [
            (record.offset, bytes(record.value or b"")) for record in iter_records(view[:size], max_bytes=1 << 20)
        ]
        view = view[size:]
    return found
