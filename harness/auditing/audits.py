"""``kwire audit`` in the test's process, and topics with records for it, on any broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kwire.cli import main
from kwire.cli.records.writing.encoding import NO_PRODUCER, Producer, Rows, encode_batch
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.testing.blocking_client import BlockingClient

FIRST_MS = 1_700_000_000_000
_TIMEOUT_MS = 20_000


class Record(NamedTuple):
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = FIRST_MS


class Outcome(NamedTuple):
    """``row``: of the JSON; with several audits it has them as ``rows``, and with none it is empty."""

    status: int
    row: dict[str, Any]
    error: str

    @property
    def faults(self) -> dict[str, int]:
        """The number of each kind."""
        return dict(self.row["faults"])


class Topics:
    """Makes topics with records. ``create``: makes a topic of so many partitions, and returns its name."""

    def __init__(self, bootstrap: str, create: Callable[[int], str]) -> None:
        self._bootstrap = bootstrap
        self._create = create

    def make(self, records: Sequence[Record], partitions: int = 2) -> str:
        """A topic with these records; its name."""
        topic = self._create(partitions)
        for partition in range(partitions):
            own = [each for each in records if each.partition == partition]
            if own:
                self.write(topic, partition, own)
        return topic

    def write(self, topic: str, partition: int, records: Sequence[Record], producer: Producer = NO_PRODUCER) -> None:
        """Write records as one batch."""
        rows = Rows(
            [each.value for each in records],
            [each.key for each in records],
            [each.headers for each in records],
            [each.timestamp for each in records],
        )
        data = PartitionProduceData(index=partition, records=encode_batch(rows, FIRST_MS, producer))
        request = ProduceRequest(
            acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        with BlockingClient(self._bootstrap) as client:
            (answer,) = client.call(request, 9).responses
        assert answer.partition_responses[0].error_code == 0, answer


class Audits:
    """Runs ``kwire audit``. ``printed``: what has been written to standard output and error since the last call."""

    def __init__(self, bootstrap: str, printed: Callable[[], tuple[str, str]]) -> None:
        self._bootstrap = bootstrap
        self._printed = printed

    def __call__(self, *arguments: object) -> Outcome:
        """Run it with ``-o json``."""
        command = ["audit", *map(str, arguments), "-b", self._bootstrap, "-o", "json", "--jobs", "1", "-q"]
        status = main(command)
        printed, error = self._printed()
        rows = json.loads(printed) if printed else [{}]
        return Outcome(status, rows[0] if len(rows) == 1 else {"rows": rows}, error)
