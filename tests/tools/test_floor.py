"""The floor of `scripts/bench` and the frames of every Produce version: what the load generator sends and checks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.codec.messages.produce_request import ProduceRequest
from kwire.codec.protocol import decode, decode_request_header
from tools.benchmark import frames, generator, results
from tools.benchmark.extras import BesideOthers
from tools.benchmark.floor import FloorTarget
from tools.benchmark.setups.cores import OneRecordOnCores
from tools.benchmark.workloads import Consume, OneRecord, Produce, throughput

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="the floor is a C program")


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[FloorTarget]:
    target = FloorTarget(tmp_path / "floor")
    target.start()
    yield target
    target.broker.kill()


@pytest.mark.parametrize("version", range(3, 14))
def test_a_frame_of_every_version_holds_the_batch_where_it_says(version: int) -> None:
    batch, count = frames.batch_of(100, 0)
    template = frames.produce(bytes(16), [0, 1], batch, count, -1, version=version, name="t")
    _, body = decode_request_header(memoryview(template.frame))
    request = decode(ProduceRequest, version, memoryview(template.frame), body)[0]
    assert request.acks == -1
    assert [each.records for each in request.topic_data[0].partition_data] == [batch, batch]
    for place in template.batches:
        assert template.frame[place.position : place.position + place.size] == batch


@needs_gcc
@pytest.mark.parametrize("version", [3, 5, 8, 9, 13])
def test_the_floor_stores_the_records_of_every_version(floor: FloorTarget, version: int) -> None:
    facts = OneRecord(3, 60, version)(floor, 1)  # the generator checks size, error and order of each response
    assert facts["cpu_s_per_thousand"] > 0
    assert not list(floor.broker.data_dir.iterdir())  # its topics are deleted


@needs_gcc
def test_what_was_produced_is_read_back_from_all_partitions(floor: FloorTarget) -> None:
    topic = floor.create_topic(3)
    sent = Produce(partitions=3, data=3_000_000).fill(topic, 1)
    ends = topic.end_offsets()
    assert ends is not None and sum(ends) == sent["sent_records"] == topic.records()
    read = generator.run(floor, None, topic, readers=2, until=ends[0])  # it checks every offset and checksum
    assert read["read_records"] == 2 * sent["sent_records"]


@needs_gcc
def test_a_reader_waits_for_what_is_produced_later(floor: FloorTarget) -> None:
    topic = floor.create_topic()
    template = frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)
    found = generator.run(floor, [template], topic, producers=1, rate=500, requests=50, readers=1, until=50)
    assert found["read_records"] == 50


@needs_gcc
def test_each_connection_sends_to_the_leader_of_its_partition(floor: FloorTarget, tmp_path: Path) -> None:
    other = FloorTarget(tmp_path / "other")
    other.start()
    try:
        topics = [each.create_topic() for each in (floor, other)]
        templates = [frames.produce(each.id, [0], *frames.batch_of(100, 0), acks=-1) for each in topics]
        ports = [each.port for each in (floor, other)]
        generator.run(floor, templates, port=ports, producers=4, inflight=1, requests=40)
        assert all(each.records() for each in topics)
        assert sum(each.records() for each in topics) == 40
    finally:
        other.broker.kill()
    assert OneRecordOnCores(3, 60)(floor, 1)["cpu_s_per_thousand"] > 0


def test_the_table_says_how_far_both_are_from_the_floor() -> None:
    workload = next(each for each in throughput() if isinstance(each.measure, Consume))
    rounds = {kind: [{"records_s": 1.0, "cpu_s_per_million": cpu}] for kind, cpu in FACTS.items()}
    line = results.Line(workload, rounds)
    assert line.from_floor("kwire", "cpu_s_per_million") == pytest.approx(1.2)
    assert "30 ms   1.20x   2.00x" in results.text_table([line])


FACTS = {"kwire": 0.036, "kafka": 0.060, "floor": 0.030}


class AfterTwoBatches(threading.Event):
    """Is set when it has been waited for twice."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return self.waits > 2


@needs_gcc
def test_the_floor_takes_the_large_batches_that_come_beside_small_ones(floor: FloorTarget) -> None:
    beside = BesideOthers(batch_bytes=300_000, seconds=0.2)
    assert beside(floor, 1)["p99_growth"] > 0
    topic = floor.create_topic()
    beside.compress(topic, floor, AfterTwoBatches())
    _, count = frames.batch_of(100, 300_000)
    assert topic.end_offsets() == [2 * count]
