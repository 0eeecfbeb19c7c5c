"""Two topics of which the second is a copy of the first but for faults that are planted: what an audit has to find.

Record ``number`` lies in partition ``number % partitions``, so a copy keeps partitions and their order. All follows
from the arguments.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kwire.cli.records.writing.encoding import Rows, encode_batch
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.testing.blocking_client import BlockingClient

LOST, DOUBLED, CHANGED, SWAPPED = "missing", "duplicate", "changed", "reordered"
KINDS: Final = (LOST, DOUBLED, CHANGED, SWAPPED)
"""As `kwire audit` calls them."""
FIRST_MS: Final = 1_700_000_000_000
_TIMEOUT_MS: Final = 60_000
_VERSION: Final = 9
_WAIT_S: Final = 120.0


class Fault(NamedTuple):
    """``offset``: of the record in the source; a pair is that and the next one."""

    kind: str
    partition: int
    offset: int


class Planted(NamedTuple):
    """``records``: of the source, ``each``: faults of each kind; ``keys``: in each partition, 0 for records
    without a key. ``batch``: records of a partition that are written together."""

    records: int
    each: int = 1
    partitions: int = 4
    keys: int = 1000
    batch: int = 5_000
    seed: int = 1

    def faults(self) -> list[Fault]:
        """One at most in a batch."""
        rng = random.Random(self.seed)
        per_partition = self.records // self.partitions
        batches = [(p, first) for p in range(self.partitions) for first in range(0, per_partition, self.batch)]
        chosen = rng.sample(batches, len(KINDS) * self.each)
        size = min(self.batch, per_partition)
        return [
            Fault(KINDS[index % len(KINDS)], partition, min(first + rng.randrange(size - 1), per_partition - 2))
            for index, (partition, first) in enumerate(chosen)
        ]

    def write(self, bootstrap: str, source: str, copy: str) -> None:
        """Fill both topics, which have ``partitions``."""
        faults = {(each.partition, each.offset // self.batch): each for each in self.faults()}
        with BlockingClient(bootstrap, timeout_s=_WAIT_S) as client:
            for number, partition, rows in self._batches():
                stamp = FIRST_MS + number * 10
                content = encode_batch(rows, stamp)
                produce(client, source, partition, content)
                fault = faults.get((partition, number // self.batch))
                if fault is not None:
                    content = encode_batch(_with(fault, rows, number), stamp)
                produce(client, copy, partition, content)

    def contents(self) -> Iterator[tuple[int, bytes]]:
        """The batches of the first of the topics alone, with their partitions."""
        for number, partition, rows in self._batches():
            yield partition, encode_batch(rows, FIRST_MS + number * 10)

    def _batches(self) -> Iterator[tuple[int, int, Rows]]:
        """The first offset, the partition and the records of each batch."""
        per_partition = self.records // self.partitions
        for first in range(0, per_partition, self.batch):
            offsets = range(first, min(first + self.batch, per_partition))
            for partition in range(self.partitions):
                values = [b"%d:%012d" % (partition, offset) for offset in offsets]
                keys = [b"%d-%d" % (partition, offset % self.keys) for offset in offsets] if self.keys else None
                yield first, partition, Rows(values, keys)


def _with(fault: Fault, rows: Rows, first: int) -> Rows:
    """The records of a batch of the copy."""
    at = fault.offset - first
    order = list(range(len(rows.values)))
    if fault.kind == LOST:
        order.remove(at)
    elif fault.kind == DOUBLED:
        order.insert(min(at + 7, len(order)), at)
    elif fault.kind == SWAPPED:
        order[at], order[at + 1] = order[at + 1], order[at]
    found = rows.take(order)
    if fault.kind == CHANGED:
        value = rows.values[at] or b""
        return found._replace(
            values=[*rows.values[:at], value[:-1] + bytes([value[-1] ^ 0x40]), *rows.values[at + 1 :]]
        )
    return found


def produce(client: BlockingClient, topic: str, partition: int, content: bytes) -> None:
    """Write a batch once."""
    data: Sequence[PartitionProduceData] = [PartitionProduceData(index=partition, records=content)]
    request = ProduceRequest(
        acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=list(data))]
    )
    (answer,) = client.call(request, _VERSION).responses
    assert answer.partition_responses[0].error_code == 0, answer
