"""Kill a busy broker with SIGKILL, again and again, and check that it keeps everything it has acknowledged.

    .venv/bin/python -m campaigns.kills --count 1000 --seed 1

Idempotent producers write batches of random size and compression into several partitions with tiny segments
(`internal.segment.bytes`) and into a compacted topic. The process is killed at a random moment: while it serves
clients, while it starts and recovers, or in the middle of an orderly stop. After the next start

- every acknowledged batch is at the offset that was acknowledged, with the bytes that were sent;
- offsets are dense (in the compacted topic: rising), and each producer's sequences have no gap and no repetition;
- the producers send again what was not acknowledged, and batches that were already there are not written twice;
- for each key, the compacted topic has the newest acknowledged value or a later one.

From time to time the broker is stopped in order, and all files are verified offline (`DirectoryVerifier`, deep).
Progress is printed from time to time, and a line of JSON at the end. The first violation ends the run with exit
status 1; the data is kept then.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from harness.raw_client import ConnectionClosed, RawClient
from kwire.base.addresses import Address
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers, iter_records
from kwire.log.verification.offline import DirectoryVerifier
from kwire.server.ready_line import ReadyLine

IN_FLIGHT = 5
PARTITIONS = 3
KEYS = 40
READY_S = 60.0
TOPIC_CONFIGS = {"internal.segment.bytes": "16384", "index.interval.bytes": "512", "file.delete.delay.ms": "1000"}
COMPACTED_CONFIGS = {**TOPIC_CONFIGS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SETTINGS = {
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "1",
}
MAYBE_STOPPING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Violation(Exception):
    """The broker has lost, changed or repeated something that it had acknowledged."""


class Sent(NamedTuple):
    """A batch of a lane: its first sequence number, how many records, and its bytes."""

    sequence: int
    records: int
    data: bytes


@dataclass
class Lane:
    """One producer's batches in one partition: those sent, acknowledged, and seen in the log."""

    producer_id: int
    topic: str
    partition: int
    size: int = 0
    next_sequence: int = 0
    pending: list[Sent] = field(default_factory=list)  # sent or to be sent, not acknowledged, in order
    acked: dict[int, int] = field(default_factory=dict)  # first sequence -> offset
    acked_until: int = 0  # every record below this sequence is acknowledged
    seen: dict[int, int] = field(default_factory=dict)  # first sequence -> offset in the log
    seen_until: int = 0
    broken: bool = False  # a response had an error: nothing more is sent until the next start

    def value(self, sequence: int) -> bytes:
        """The value of the record with a sequence number, which decides all its bytes."""
        text = b"%d/%d/%d " % (self.producer_id, self.partition, sequence)
        return text * (1 + (sequence * 2654435761 >> 7) % 12)

    def key(self, sequence: int) -> bytes:
        """The key of the record with a sequence number: one of `KEYS` keys of the producer."""
        return b"%d-%d" % (self.producer_id, sequence * 7919 % KEYS)

    def new_batch(self, rng: random.Random) -> Sent:
        """Build the next batch, of random size and compression, and move `next_sequence` past it."""
        count, first = rng.choice((1, 1, 2, 5, 20, 60)), self.next_sequence
        now_ms = time.time_ns() // 1_000_000
        records = [Record(timestamp=now_ms, key=self.key(s), value=self.value(s)) for s in range(first, first + count)]
        codec = rng.choice((0, 0, 0, 1, 2, 3, 4))
        data = build_batch(
            records, compression=codec, producer_id=self.producer_id, producer_epoch=0, base_sequence=first
        )
        self.next_sequence += count
        return Sent(first, count, data)


class Process:
    """One life of the broker."""

    def __init__(self, data: Path, log: Path, settings: dict[str, str]) -> None:
        self._command = [sys.executable, "-m", "kwire", "start", "--listen", "127.0.0.1:0", "--data-dir", str(data)]
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        if shutil.which("setpriv"):
            self._command = ["setpriv", "--pdeathsig", "KILL", *self._command]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self.address = Address("", 0)

    async def spawn(self) -> None:
        """Start the process, without waiting until the broker is ready."""
        with open(self._log, "ab") as log:  # noqa: ASYNC230
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log, cwd=ROOT
            )

    async def ready(self, timeout_s: float = READY_S) -> bool:
        """Whether the broker is ready within the time limit. `Violation` if it has ended instead."""
        assert self._process is not None and self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        except TimeoutError:
            return False
        try:
            self.address = ReadyLine.parse(line).addresses[0]
        except ValueError as error:
            raise Violation(f"the broker did not start: {error}, {self._log}") from None
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end of the process, without a time limit; return its exit status."""
        assert self._process is not None
        return await self._process.wait()


class Campaign:
    """All lives of one broker, and the model of what it has acknowledged."""

    def __init__(self, home: Path, seed: int, *, producers: int = 3, generation: int = 40, verify_every: int = 10):
        self.home = home
        self.data = home / "data"
        self.rng = random.Random(seed)
        self.doors = Doors()
        self.lanes: list[Lane] = []
        self.counts: Counter[str] = Counter()
        self.starts_s: list[float] = []
        self._producers = producers
        self._generation_kills = generation
        self._verify_every = verify_every
        self._generation = 0
        self._checked: dict[tuple[str, int], int] = {}
        self._process = Process(self.data, home / "broker.log", SETTINGS)

    async def run(self, kills: int) -> None:
        """Kill the broker ``kills`` times. Raises `Violation`."""
        while self.counts["kills"] < kills:
            await self._live()
            done = self.counts["kills"]
            if done % self._verify_every == 0 or done == kills:
                await self._verify_offline()
            if done % 50 == 0:
                print(f"{done} kills: {json.dumps(self.summary())}", flush=True)

    def summary(self) -> dict[str, object]:
        """The counts so far, and the median and longest time from start to ready in seconds."""
        starts = sorted(self.starts_s) or [0.0]
        middle, worst = round(starts[len(starts) // 2], 3), round(starts[-1], 3)
        return {**dict(sorted(self.counts.items())), "start_median_s": middle, "start_max_s": worst}

    # One life

    async def _live(self) -> None:
        """One life: start, check what is there, produce, and kill the broker."""
        rng = self.rng
        how = "serving" if not self.lanes else rng.choices(("serving", "starting", "stopping"), (70, 15, 15))[0]
        started = time.monotonic()
        await self._process.spawn()
        if how == "starting":
            if await self._process.ready(rng.uniform(0.05, 0.8)):
                self.counts["kills_just_started"] += 1
            await self._kill()
            return
        if not await self._process.ready():
            raise Violation("the broker was not ready in time")
        self.starts_s.append(time.monotonic() - started)
        await self._check_all()
        if not self.lanes or self.counts["kills"] // self._generation_kills >= self._generation:
            await self._begin_generation()
        working = [asyncio.ensure_future(self._produce(n)) for n in range(self._producers)]
        await asyncio.sleep(rng.uniform(0.02, 0.6))
        if how == "stopping":
            self._process.signal(signal.SIGTERM)
            await asyncio.sleep(rng.uniform(0, 0.15))
        await self._kill()
        await asyncio.gather(*working)
        self.counts[f"kills_{how}"] += 1

    async def _kill(self) -> None:
        self._process.signal(signal.SIGKILL)
        await self._process.ended()
        self.counts["kills"] += 1

    async def _connect(self) -> RawClient:
        return await RawClient.connect(self.doors, *self._process.address)

    async def _begin_generation(self) -> None:
        """Create new topics and delete the old ones, so that little has to be read each time."""
        old = sorted({lane.topic for lane in self.lanes})
        self._generation += 1
        plain, compacted = f"plain-{self._generation}", f"compacted-{self._generation}"
        async with await self._connect() as client:
            if old:
                topics = [DeleteTopicState(name=name) for name in old]
                await client.call(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
            await self._create(client, plain, PARTITIONS, TOPIC_CONFIGS)
            await self._create(client, compacted, 1, COMPACTED_CONFIGS)
            self.lanes, self._checked = [], {}
            for _ in range(self._producers):
                answer = await client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
                if answer.error_code:
                    raise Violation(f"InitProducerId: {ErrorCode(answer.error_code).name}")
                for topic, partition in [*((plain, n) for n in range(PARTITIONS)), (compacted, 0)]:
                    self.lanes.append(Lane(answer.producer_id, topic, partition))

    async def _create(self, client: RawClient, name: str, partitions: int, configs: dict[str, str]) -> None:
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        if answer.topics[0].error_code:
            raise Violation(f"CreateTopics: {ErrorCode(answer.topics[0].error_code).name}")

    # Producing

    async def _produce(self, number: int) -> None:
        """One producer until the connection breaks: all its lanes, a few batches of each in flight."""
        per_producer = len(self.lanes) // self._producers
        lanes = self.lanes[number * per_producer : (number + 1) * per_producer]
        rng = random.Random(self.rng.random())
        try:
            async with await self._connect() as client:
                await asyncio.gather(*(self._drive(client, lane, rng) for lane in lanes))
        except (OSError, ConnectionClosed):
            return

    async def _drive(self, client: RawClient, lane: Lane, rng: random.Random) -> None:
        """Send first what was not acknowledged, then new batches; responses come in order."""
        lane.broken = False
        waiting: list[tuple[Sent, asyncio.Future[Any]]] = []
        resend = list(lane.pending)
        try:
            while not lane.broken:
                while len(waiting) < IN_FLIGHT:
                    if resend:
                        batch = resend.pop(0)
                        self.counts["batches_sent_again"] += 1
                    else:
                        batch = lane.new_batch(rng)
                        lane.pending.append(batch)
                    waiting.append((batch, client.post(_produce_request(lane, batch), 9)))
                batch, future = waiting.pop(0)
                self._answered(lane, batch, await future)
        finally:
            for _, future in waiting:
                future.cancel()

    def _answered(self, lane: Lane, batch: Sent, response: Any) -> None:
        answer = response.responses[0].partition_responses[0]
        code, there = answer.error_code, lane.seen.get(batch.sequence)
        if code in MAYBE_STOPPING:
            lane.broken = True
            return
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.sequence < lane.seen_until:
            self.counts["in_doubt_refused_but_there"] += 1  # older than what a snapshot keeps, as in Kafka
            answer.base_offset = -1 if there is None else there
        elif code:
            raise Violation(f"{lane.topic}-{lane.partition}: sequence {batch.sequence}: {ErrorCode(code).name}")
        if there is not None:
            self.counts["duplicates_recognised"] += 1
            if answer.base_offset != there:
                raise Violation(f"{lane}: {batch.sequence} is at {there}, answered {answer.base_offset}")
        lane.acked[batch.sequence] = answer.base_offset
        lane.acked_until = batch.sequence + batch.records
        lane.pending.remove(batch)
        self.counts["batches_acked"] += 1
        self.counts["records_acked"] += batch.records

    # Checking

    async def _check_all(self) -> None:
        """Check that everything acknowledged is there, and nothing twice."""
        if not self.lanes:
            return
        full = self.counts["kills"] % self._verify_every == 0
        async with await self._connect() as client:
            for topic, partition in dict.fromkeys((lane.topic, lane.partition) for lane in self.lanes):
                here = [lane for lane in self.lanes if (lane.topic, lane.partition) == (topic, partition)]
                lanes = {lane.producer_id: lane for lane in here}
                if topic.startswith("compacted"):
                    await self._check_compacted(client, topic, partition, lanes)
                else:
                    await self._check_plain(client, topic, partition, lanes, full)
        self.counts["checks"] += 1

    async def _check_plain(
        self, client: RawClient, topic: str, partition: int, lanes: dict[int, Lane], full: bool
    ) -> None:
        if full:
            self._checked[topic, partition] = 0
            for lane in lanes.values():
                lane.seen, lane.seen_until = {}, 0
        expected = self._checked.get((topic, partition), 0)
        async for header, batch in _fetch_all(client, topic, partition, expected):
            lane = lanes[header.producer_id]
            where = f"{topic}-{partition} at offset {header.base_offset}"
            if header.base_offset != expected:
                raise Violation(f"{where}: offset {expected} was due")
            if header.base_sequence != lane.seen_until:
                raise Violation(f"{where}: sequence {header.base_sequence} where {lane.seen_until} was due")
            acked = lane.acked.get(header.base_sequence, expected)
            if acked != expected:
                raise Violation(f"{where}: sequence {header.base_sequence} was acknowledged at {acked}")
            values = [record.value for record in iter_records(batch, max_bytes=1 << 24)]
            if values != [lane.value(s) for s in range(header.base_sequence, header.base_sequence + header.count)]:
                raise Violation(f"{where}: other bytes than were sent")
            lane.seen[header.base_sequence] = expected
            lane.seen_until += header.count
            expected = header.next_offset
            self.counts["batches_checked"] += 1
        self._checked[topic, partition] = expected
        for lane in lanes.values():
            if lane.seen_until < lane.acked_until:
                raise Violation(f"{topic}-{partition}: acknowledged to {lane.acked_until}, there to {lane.seen_until}")

    async def _check_compacted(self, client: RawClient, topic: str, partition: int, lanes: dict[int, Lane]) -> None:
        newest: dict[bytes, int] = {}
        last = dict.fromkeys(lanes, -1)
        previous = -1
        for lane in lanes.values():
            lane.seen = {}
        async for header, batch in _fetch_all(client, topic, partition, 0):
            lane = lanes[header.producer_id]
            if header.base_offset <= previous:
                raise Violation(f"{topic}-{partition}: offset {header.base_offset} after {previous}")
            lane.seen[header.base_sequence] = header.base_offset
            for record in iter_records(batch, max_bytes=1 << 24):
                sequence = header.base_sequence + record.offset - header.base_offset
                where = f"{topic}-{partition} at offset {record.offset}"
                if record.offset <= previous or sequence <= last[header.producer_id]:
                    raise Violation(f"{where}: sequence {sequence} of {header.producer_id} is not new")
                if record.key != lane.key(sequence) or record.value != lane.value(sequence):
                    raise Violation(f"{where}: other bytes than were sent")
                previous, last[header.producer_id] = record.offset, sequence
                newest[record.key] = sequence
            previous = header.last_offset
        for lane in lanes.values():
            lane.seen_until = last[lane.producer_id] + 1
            for sequence in range(max(lane.acked_until - KEYS, 0), lane.acked_until):
                if newest.get(lane.key(sequence), -1) < sequence:
                    raise Violation(f"{topic}-{partition}: {lane.key(sequence)!r} of sequence {sequence} is lost")

    async def _verify_offline(self) -> None:
        """Start the broker, stop it in order, and verify every file."""
        await self._process.spawn()
        if not await self._process.ready():
            raise Violation("the broker was not ready in time")
        await self._check_all()
        self._process.signal(signal.SIGTERM)
        if status := await self._process.ended():
            raise Violation(f"the orderly stop ended with status {status}")
        verifier = DirectoryVerifier(str(self.data), deep=True)
        if verifier.run():
            raise Violation("\n".join(f"{finding.path}: {finding.problem}" for finding in verifier.findings))
        self.counts["offline_verifications"] += 1
        self.counts["segments_verified"] += verifier.totals.segments


def _produce_request(lane: Lane, batch: Sent) -> ProduceRequest:
    data = PartitionProduceData(index=lane.partition, records=batch.data)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=lane.topic, partition_data=[data])]
    )


async def _fetch_all(client: RawClient, topic: str, partition: int, offset: int) -> Any:
    """Every batch (header, bytes) from an offset to the high watermark."""
    first = True
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_bytes=1 << 24, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        answer = (await client.call(request, 12)).responses[0].partitions[0]
        if answer.error_code:
            raise Violation(f"Fetch {topic}-{partition} from {offset}: {ErrorCode(answer.error_code).name}")
        if first and answer.high_watermark < offset:
            raise Violation(f"{topic}-{partition} ends at {answer.high_watermark}, it had reached {offset}")
        first = False
        for header, batch in _batches(answer.records or b""):
            if header.next_offset > offset:
                yield header, batch
                offset = header.next_offset
        if offset >= answer.high_watermark:
            return


def _batches(records: Any) -> Iterator[tuple[Any, memoryview]]:
    view = memoryview(records)
    for position, header in iter_headers(view, allow_partial=True):
        yield header, view[position : position + header.size]


def run_campaign(home: Path, seed: int, kills: int, **how: Any) -> dict[str, object]:
    """Run a whole campaign in a directory of its own; return the counts. Raises `Violation`."""
    campaign = Campaign(home, seed, **how)
    try:
        asyncio.run(campaign.run(kills))
    finally:
        campaign._process.signal(signal.SIGKILL)
    return campaign.summary()


def main() -> int:
    """The command line; 1 at the first violation."""
    parser = campaign_parser("kills", __doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="where to work (a temporary folder otherwise)")
    arguments = parser.parse_args()
    home = arguments.dir or Path(tempfile.mkdtemp(prefix="kwire-kill-"))
    home.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        summary = run_campaign(home, arguments.seed, arguments.count)
    except Violation as violation:
        print(f"VIOLATION with seed {arguments.seed}, data in {home}: {violation}")
        return 1
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({"campaign": "kill", "seed": arguments.seed, "seconds": seconds, **summary}))
    if arguments.dir is None:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
