"""Requests for the load generator: made with kwire's codec once, then sent as they are, over and over.

What lives elsewhere: the generator that patches and sends them (`load.c`, `generator.py`).
"""

from __future__ import annotations

import random
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from kwire.codec.message import Message
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kwire.codec.protocol import encode, request_header_version, response_header_version
from kwire.codec.records import RecordBatchBuilder

CLIENT_ID = b"bench"
PRODUCE_VERSION = 13
METADATA_VERSION = 13
RECORD_OVERHEAD = 12
"""Bytes that a record adds to its value, at most."""

_random = random.Random(20)
_WORDS = [bytes(_random.choices(b"abcdefghijklmnopqrstuvwxyz", k=_random.randrange(3, 9))) for _ in range(2000)]


@dataclass(frozen=True)
class Batch:
    """The place of a batch in its frame, and of its error code in the response."""

    position: int
    size: int
    count: int
    error_at: int


@dataclass(frozen=True)
class Template:
    """A request frame without its size field; ``answer_size`` 0: any."""

    frame: bytes
    answer_size: int = 0
    batches: list[Batch] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records one request contains."""
        return sum(batch.count for batch in self.batches)


def write(path: Path, templates: list[Template]) -> None:
    """The file that `load.c` reads."""
    out = [struct.pack(">i", len(templates))]
    for template in templates:
        out.append(struct.pack(">iii", len(template.frame), template.answer_size, len(template.batches)))
        out += [struct.pack(">iiii", each.position, each.size, each.count, each.error_at) for each in template.batches]
        out.append(template.frame)
    path.write_bytes(b"".join(out))


def header(api_key: int, version: int) -> bytes:
    """A request header of the version that belongs to the API's."""
    tags = b"\0" if request_header_version(api_key, version) == 2 else b""
    return struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + tags


def frame(request: Message, version: int) -> bytes:
    """The encoded request with its header, without the size in front."""
    return header(request.API_KEY, version) + bytes(encode(request, version))


def batch_of(
    record_bytes: int, batch_bytes: int, *, compression: int = 0, producer: tuple[int, int] | None = None
) -> tuple[bytes, int]:
    """A batch of as many records as fit (at least one), words as their values, before compression; and how many."""
    producer_id, epoch = producer or (-1, -1)
    builder = RecordBatchBuilder(
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1 if producer is None else 0,
    )
    now_ms = time.time_ns() // 1_000_000
    while not builder.count or builder.size + record_bytes + RECORD_OVERHEAD <= batch_bytes:
        value = b" ".join(_random.choices(_WORDS, k=record_bytes // 4 + 1))[:record_bytes]
        builder.append(now_ms, None, value.ljust(record_bytes))
    return builder.build(), builder.count


def produce(
    topic_id: bytes,
    partitions: list[int],
    batch: bytes,
    count: int,
    acks: int,
    *,
    version: int = PRODUCE_VERSION,
    name: str = "",
) -> Template:
    """A Produce request with the same batch for each of the partitions. ``name``: the topic's, before version 13."""
    topic = TopicProduceData(
        name=name, partition_data=[PartitionProduceData(index=i, records=batch) for i in partitions]
    )
    if version >= PRODUCE_VERSION:
        topic.topic_id = topic_id
    raw = frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic]), version)
    positions = []
    position = -1
    for _ in partitions:
        position = raw.index(batch, position + 1)
        positions.append(position)
    answer = _answer(topic, version, 0)
    failed = _answer(topic, version, -1)
    errors = [
        at for at in range(len(answer) - 1) if answer[at : at + 2] == b"\0\0" and failed[at : at + 2] == b"\xff\xff"
    ]
    assert len(errors) == len(partitions)
    batches = [Batch(at, len(batch), count, error) for at, error in zip(positions, errors, strict=True)]
    return Template(raw, len(answer), batches)


def _answer(asked: TopicProduceData, version: int, error: int) -> bytes:
    """The response to a Produce request, except for the offsets: only its size and its error codes' places matter."""
    parts = [
        PartitionProduceResponse(
            index=each.index, error_code=error, base_offset=0, log_append_time_ms=0, log_start_offset=0
        )
        for each in asked.partition_data
    ]
    topic = TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
    head = 5 if response_header_version(ProduceRequest.API_KEY, version) == 1 else 4
    return bytes(head) + bytes(encode(ProduceResponse(responses=[topic]), version))


def metadata_of_all() -> Template:
    """A Metadata request for all topics."""
    return Template(frame(MetadataRequest(topics=None), METADATA_VERSION))
