"""What is measured. One base workload: 100-byte records in batches of 16 KiB (Kafka's default `batch.size`), one
producer with five requests under way, one partition, acks=all. Every other line varies one factor.

A workload is a function of a target and a scale (1: the full amount) that returns facts in the units of `Facts`. What
is counted is checked: the partitions' end offsets after producing; offsets, counts and checksums while reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.benchmark import frames, generator
from tools.benchmark.targets import Target, Topic

KIB = 1024
MEGABYTE = 1_000_000

Facts = dict[str, float]
"""``records_s``, ``mb_s``, ``requests_s``: rates. ``cpu_s_per_million``: broker processor seconds per million records.
``cpu_s_per_thousand``: the same per thousand requests. ``p50_us``, ``p99_us``, ``p999_us``: from request to response.
``e2e_...``: from request to the reader. ``seconds``, ``mb``: of start-up, memory and the like. Those of TLS are in
`tools.benchmark.setups.secured`."""

Measure = Callable[[Target, float], Facts]


@dataclass(frozen=True)
class Workload:
    """``key`` is for `--only`; ``rate`` names the fact that is its rate, ``cost`` the one that is its price; ``bounds``
    what kwire may have of Kafka's value, by fact; ``limits`` what it may have whatever Kafka has. ``on_floor``: it is
    also measured on the floor (`tools.benchmark.floor`). ``brokers``: it is measured on so many of kwire's alone."""

    key: str
    title: str
    group: str
    measure: Measure
    rate: str = ""
    cost: str = ""
    bounds: tuple[tuple[str, float], ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    on_floor: bool = False
    brokers: int = 0


PRODUCE = "Produce"
CONSUME = "Consume"
BOTH = "Produce and consume at once"
REQUESTS = "One record a request"
CORES = "One record a request, all cores (kwire start --brokers auto)"
LATENCY = "Latency at a fixed rate"
TOOLS = "Apache Kafka's own tools (their JVM is the larger part of the work)"
CLUSTER = "Groups and metadata"
FOOTPRINT = "Footprint"
SECURED = "TLS and logins"
GUARDED = "With an authorizer and 1,000 ACLs"
SHARED = "Share consumers (ShareConsumerPerformance)"


def answers(result: dict[str, Any]) -> Facts:
    """The latencies of a generator's report."""
    answer = result["answer_us"]
    return {"p50_us": answer["p50"], "p99_us": answer["p99"], "p999_us": answer["p999"]}


# -- produce ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Produce:
    """Produce requests, each with one batch for each of up to 50 partitions (a client's request has a megabyte)."""

    record: int = 100
    batch: int = 16 * KIB
    acks: int = -1
    partitions: int = 1
    compression: int = 0
    idempotent: bool = False
    data: int = 400 * MEGABYTE

    def templates(self, topic: Topic) -> list[frames.Template]:
        """The requests that are sent in turn, each with at most 50 partitions."""
        producer = topic.target.producer_id() if self.idempotent else None
        batch, count = frames.batch_of(self.record, self.batch, compression=self.compression, producer=producer)
        indexes = list(range(self.partitions))
        return [
            frames.produce(topic.id, indexes[at : at + 50], batch, count, self.acks)
            for at in range(0, len(indexes), 50)
        ]

    def requests(self, templates: list[frames.Template], scale: float) -> int:
        """How many requests the scaled amount of data takes."""
        per_round = sum(self.batch * len(each.batches) for each in templates)
        return max(int(self.data * scale / per_round), 4) * len(templates)

    def fill(self, topic: Topic, scale: float) -> dict[str, Any]:
        """Produce to the topic; return the generator's report."""
        templates = self.templates(topic)
        requests = self.requests(templates, scale)
        before = topic.records()
        topic.target.warm_pages(int(self.data * scale * 1.1))
        if self.acks == 0:
            templates.append(frames.produce(topic.id, [0], *frames.batch_of(1, 1), acks=1))
        result = generator.run(
            topic.target,
            templates,
            producers=1,
            inflight=5,
            requests=requests,
            barrier=int(self.acks == 0),
            idempotent=int(self.idempotent),
        )
        written = topic.records() - before
        assert written == result["sent_records"], f"{written} records in the log, {result['sent_records']} sent"
        return result

    def __call__(self, target: Target, scale: float) -> Facts:
        """Produce and measure. See `Measure`."""
        large = {"max.message.bytes": str(2 * self.batch)} if self.batch > MEGABYTE else None
        topic = target.create_topic(self.partitions, large)
        self.fill(topic, scale / 5)  # warm-up
        result = self.fill(topic, scale)
        topic.delete()
        records, seconds = result["sent_records"], result["send_s"]
        facts = {
            "records_s": records / seconds,
            "mb_s": records * self.record / seconds / 1e6,
            "requests_s": result["requests"] / seconds,
            "cpu_s_per_million": result["cpu_s"] / records * 1e6,
            "generator_busy": result["own_cpu_s"] / seconds,
        }
        return facts if self.acks == 0 else facts | answers(result)


# -- consume ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Consume:
    """Read everything from the beginning; ``groups`` readers each read all of it."""

    partitions: int = 1
    groups: int = 1
    cold: bool = False
    passes: int = 3

    def __call__(self, target: Target, scale: float) -> Facts:
        """Fill a topic, then measure how it is read. See `Measure`."""
        topic = target.create_topic(self.partitions)
        Produce(partitions=self.partitions).fill(topic, scale)
        ends = topic.end_offsets()
        assert ends is not None and len(set(ends)) == 1
        results = []
        for _ in range(1 if self.cold or self.groups > 1 else self.passes):
            if self.cold:
                topic.forget_cached()
                target.warm_pages(int(400 * MEGABYTE * scale))
            results.append(generator.run(target, None, topic, readers=self.groups, until=ends[0]))
        topic.delete()
        records = sum(each["read_records"] for each in results)
        assert records == sum(ends) * self.groups * len(results), f"{records} records read"
        seconds = sum(each["read_s"] for each in results)
        return {
            "records_s": records / seconds,
            "mb_s": records * 100 / seconds / 1e6,
            "cpu_s_per_million": sum(each["cpu_s"] for each in results) / records * 1e6,
            "generator_busy": sum(each["own_cpu_s"] for each in results) / seconds,
        }


@dataclass(frozen=True)
class Tailing:
    """One producer on a schedule, and readers that follow the end."""

    groups: int = 1
    rate: int = 1000

    def __call__(self, target: Target, scale: float) -> Facts:
        """Produce at a steady rate while groups read the end of the log. See `Measure`."""
        topic = target.create_topic()
        templates = Produce().templates(topic)
        requests = int(3 * self.rate * scale)
        result = generator.run(
            target,
            templates,
            topic,
            producers=1,
            rate=self.rate,
            requests=requests,
            readers=self.groups,
            until=requests * templates[0].records,
        )
        topic.delete()
        moved = result["sent_records"] + result["read_records"]
        assert result["read_records"] == self.groups * result["sent_records"]
        end = result["end_to_end_us"]
        return {
            "records_s": result["sent_records"] / result["send_s"],
            "cpu_s_per_million": result["cpu_s"] / moved * 1e6,
            "e2e_p50_us": end["p50"],
            "e2e_p99_us": end["p99"],
            **answers(result),
        }


@dataclass(frozen=True)
class AtOnce:
    """One producer at full speed, one reader that follows it: records produced and consumed per second."""

    batch: int = 128 * KIB
    data: int = 500 * MEGABYTE

    def __call__(self, target: Target, scale: float) -> Facts:
        """Produce and read at the same time. See `Measure`."""
        topic = target.create_topic()
        produce = Produce(batch=self.batch, data=self.data)
        produce.fill(topic, scale / 10)
        warm = topic.records()
        generator.run(target, None, topic, readers=1, until=warm)
        topic.delete()
        topic = target.create_topic()
        templates = produce.templates(topic)
        requests = produce.requests(templates, scale)
        until = requests * templates[0].records
        target.warm_pages(int(self.data * scale * 1.1))
        result = generator.run(
            target, templates, topic, producers=1, inflight=5, requests=requests, readers=1, until=until
        )
        assert result["read_records"] == result["sent_records"] == topic.records()
        topic.delete()
        seconds = max(result["send_s"], result["read_s"])
        return {
            "records_s": until / seconds,
            "mb_s": until * 100 / seconds / 1e6,
            "cpu_s_per_million": result["cpu_s"] / until * 1e6,
            "generator_busy": result["own_cpu_s"] / seconds,
            **answers(result),
        }


# -- single records --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneRecord:
    """One record a request, acks=all, one request under way on each connection. ``version``: of Produce."""

    connections: int
    requests: int = 20_000
    version: int = frames.PRODUCE_VERSION

    def __call__(self, target: Target, scale: float) -> Facts:
        """Send requests of one record each and wait for every response. See `Measure`."""
        topic = target.create_topic()
        batch = frames.batch_of(100, 0)
        templates = [frames.produce(topic.id, [0], *batch, acks=-1, version=self.version, name=topic.name)]
        requests = max(int(self.requests * scale), 2 * self.connections)
        warm_up = max(requests // 5, self.connections)
        generator.run(target, templates, requests=warm_up, producers=self.connections, inflight=1)
        before = topic.records()
        result = generator.run(target, templates, requests=requests, producers=self.connections, inflight=1)
        assert topic.records() - before == requests
        topic.delete()
        return {
            "requests_s": requests / result["send_s"],
            "cpu_s_per_thousand": result["cpu_s"] / requests * 1e3,
            "generator_busy": result["own_cpu_s"] / result["send_s"],
            **answers(result),
        }


@dataclass(frozen=True)
class OpenLoop:
    """Single records on a schedule, acks=all, over one connection, and a reader that waits for each."""

    rate: int
    seconds: float = 4

    def __call__(self, target: Target, scale: float) -> Facts:
        """Send single records on a schedule and measure the latency. See `Measure`."""
        topic = target.create_topic()
        templates = [frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)]
        generator.run(target, templates, producers=1, rate=self.rate, requests=self.rate // 2)
        topic.delete()
        topic = target.create_topic()
        templates = [frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)]
        requests = int(self.rate * self.seconds * max(scale, 0.5))
        result = generator.run(
            target, templates, topic, producers=1, rate=self.rate, requests=requests, readers=1, until=requests
        )
        assert topic.records() == requests == result["read_records"]
        topic.delete()
        end = result["end_to_end_us"]
        return {
            "requests_s": requests / result["send_s"],
            "cpu_s_per_thousand": result["cpu_s"] / requests * 1e3,
            "e2e_p50_us": end["p50"],
            "e2e_p99_us": end["p99"],
            "late_p99_us": result["late_us"]["p99"],
            **answers(result),
        }


@dataclass(frozen=True)
class ManyTopics:
    """One producer that writes to many topics of one partition in turn, with five requests under way."""

    topics: int = 1000
    data: int = 400 * MEGABYTE

    def __call__(self, target: Target, scale: float) -> Facts:
        """Produce to all topics in turn, and measure. See `Measure`."""
        topics = [target.create_topic() for _ in range(max(int(self.topics * scale), 20))]
        batch, count = frames.batch_of(100, 16 * KIB)
        templates = [frames.produce(each.id, [0], batch, count, -1) for each in topics]
        requests = max(int(self.data * scale / len(batch)), 2 * len(topics))
        target.warm_pages(int(self.data * scale * 1.1))
        generator.run(target, templates, producers=1, inflight=5, requests=2 * len(topics))
        before = sum(each.records() for each in topics)
        result = generator.run(target, templates, producers=1, inflight=5, requests=requests)
        assert sum(each.records() for each in topics) - before == result["sent_records"]
        target.delete_topics(topics)
        records, seconds = result["sent_records"], result["send_s"]
        return {
            "records_s": records / seconds,
            "cpu_s_per_million": result["cpu_s"] / records * 1e6,
            "generator_busy": result["own_cpu_s"] / seconds,
            **answers(result),
        }


@dataclass(frozen=True)
class Lagging:
    """A reader that begins in data which is no longer cached, while a producer writes to the same partition."""

    data: int = 400 * MEGABYTE

    def __call__(self, target: Target, scale: float) -> Facts:
        """Fill a topic, then read it from the disk beside a producer. See `Measure`."""
        topic = target.create_topic()
        produce = Produce(data=self.data)
        produce.fill(topic, scale)
        held = topic.records()
        topic.forget_cached()
        target.warm_pages(int(self.data * scale))
        templates = produce.templates(topic)
        requests = produce.requests(templates, scale / 2)
        until = held + requests * templates[0].records
        result = generator.run(
            target, templates, topic, producers=1, inflight=5, requests=requests, readers=1, until=until
        )
        assert result["read_records"] == topic.records() == until
        topic.delete()
        seconds = max(result["send_s"], result["read_s"])
        return {
            "records_s": until / seconds,
            "cpu_s_per_million": result["cpu_s"] / until * 1e6,
            "generator_busy": result["own_cpu_s"] / seconds,
            **answers(result),
        }


# -- the list --------------------------------------------------------------------------------------------------------

_RATE_AND_CPU = (("cpu_s_per_million", 0.5), ("records_s", 1.0))
_LARGE = (("cpu_s_per_million", 1.0), ("records_s", 1.0))


def _produce(key: str, title: str, measure: Produce, bounds: tuple[tuple[str, float], ...] = ()) -> Workload:
    return Workload(f"produce-{key}", title, PRODUCE, measure, "records_s", "cpu_s_per_million", bounds, on_floor=True)


def _consume(key: str, title: str, measure: Measure, bounds: tuple[tuple[str, float], ...] = ()) -> Workload:
    return Workload(f"consume-{key}", title, CONSUME, measure, "records_s", "cpu_s_per_million", bounds, on_floor=True)


def _both(key: str, title: str, measure: Measure, bounds: tuple[tuple[str, float], ...] = ()) -> Workload:
    return Workload(key, title, BOTH, measure, "records_s", "cpu_s_per_million", bounds, on_floor=True)


def _requests(key: str, title: str, measure: Measure, group: str, bounds: tuple[tuple[str, float], ...]) -> Workload:
    return Workload(key, title, group, measure, "requests_s", "cpu_s_per_thousand", bounds, on_floor=True)


def _compressed() -> list[Workload]:
    """Large batches in each compression, sized before it."""
    return [
        _produce(
            f"{name}-{size // MEGABYTE}m",
            f"{name}, {size // MEGABYTE} MB batches",
            Produce(compression=code, batch=size - 1000),
        )
        for name, code in (("gzip", 1), ("lz4", 3), ("zstd", 4))
        for size in (MEGABYTE, 10 * MEGABYTE)
    ]


def throughput() -> list[Workload]:
    """All workloads that run on the brokers that stay up through a round."""
    return [
        _produce("base", "base: 100 B records, 16 KiB batches, acks=all", Produce(), _RATE_AND_CPU),
        _produce("128k", "128 KiB batches", Produce(batch=128 * KIB), _RATE_AND_CPU),
        _produce("1m", "1 MB batches", Produce(batch=MEGABYTE), _LARGE),
        _produce("1k-16k", "1 KiB records", Produce(record=KIB), _RATE_AND_CPU),
        _produce("1k-128k", "1 KiB records, 128 KiB batches", Produce(KIB, 128 * KIB), _RATE_AND_CPU),
        _produce("1k-1m", "1 KiB records, 1 MB batches", Produce(KIB, MEGABYTE), _LARGE),
        _produce("acks0", "acks=0", Produce(acks=0)),
        _produce("acks1", "acks=1", Produce(acks=1)),
        _produce("6p", "6 partitions in a request", Produce(partitions=6)),
        _produce("100p", "100 partitions, 50 in a request", Produce(partitions=100)),
        _produce("lz4", "lz4", Produce(compression=3)),
        _produce("zstd", "zstd", Produce(compression=4)),
        _produce("idempotent", "idempotent", Produce(idempotent=True)),
        *_compressed(),
        Workload(
            "topics-1000",
            "1,000 topics of one partition in turn, 16 KiB batches",
            PRODUCE,
            ManyTopics(),
            "records_s",
            "cpu_s_per_million",
            on_floor=True,
        ),
        _consume("1p", "1 partition, 1 group", Consume(), _RATE_AND_CPU),
        _consume("6p", "6 partitions", Consume(partitions=6), _LARGE),
        _consume("100p", "100 partitions", Consume(partitions=100)),
        _consume("10g", "10 groups", Consume(groups=10)),
        _consume("cold", "from the disk (not cached)", Consume(cold=True)),
        _consume("lagging", "from the disk, while a producer writes", Lagging()),
        _consume("tail", "tailing 152,000 records/s, 1 group", Tailing()),
        _consume("tail-10g", "tailing, 10 groups", Tailing(groups=10)),
        _both("headline", "128 KiB batches", AtOnce(), _RATE_AND_CPU),
        _both("both-16k", "16 KiB batches", AtOnce(16 * KIB)),
        _requests("one-1", "1 connection", OneRecord(1), REQUESTS, (("cpu_s_per_thousand", 0.5), ("requests_s", 1.0))),
        _requests(
            "one-50",
            "50 connections",
            OneRecord(50, 30_000),
            REQUESTS,
            (("cpu_s_per_thousand", 0.5), ("requests_s", 1.0)),
        ),
        _requests(
            "one-1000",
            "1,000 connections",
            OneRecord(1000, 30_000),
            REQUESTS,
            (("cpu_s_per_thousand", 0.5), ("requests_s", 1.0)),
        ),
        _requests("one-5000", "5,000 connections", OneRecord(5000, 60_000), REQUESTS, ()),
        _requests("one-50-v3", "50 connections, Produce 3 (oldest)", OneRecord(50, 30_000, 3), REQUESTS, ()),
        _requests("one-50-v7", "50 connections, Produce 7 (librdkafka)", OneRecord(50, 30_000, 7), REQUESTS, ()),
        _requests("open-1000", "1,000 records/s", OpenLoop(1000), LATENCY, (("p50_us", 0.6), ("p99_us", 0.6))),
        _requests("open-5000", "5,000 records/s", OpenLoop(5000), LATENCY, ()),
    ]
