"""Produce in every version, valid and invalid: the same responses as Apache Kafka's."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.data.requests import NOW_MS, Topic, batch, outcome, resealed, versions, with_byte
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.records import Record, build_batch
from kwire.codec.records.control import build_control_batch

Make = Callable[..., Topic]


def test_every_version_answers_and_stores_the_same(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    observe("responses", {v: topic.produce(batch(b"a", b"b"), v) for v in versions(3, 13)})
    observe("acks=1", topic.produce(batch(b"c"), acks=1))
    observe("stored", topic.fetch(0))


@pytest.mark.parametrize("compression", range(5))
def test_every_compression_is_stored_as_it_came(wire_topic: Make, observe: Observations, compression: int) -> None:
    topic = wire_topic()
    data = batch(b"x" * 2000, None, b"", compression=compression)
    observe("response", topic.produce(data))
    stored = topic.fetch(0)["responses"][0]["partitions"][0]["records"]
    assert stored[61:] == data[61:], "the records are not touched"
    if compression == 4:
        observe("zstd before version 7", topic.produce(data, 6))


def test_partitions_that_are_not_there(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    observe("unknown partition", topic.produce(batch(b"a"), index=9))
    observe("negative partition", topic.produce(batch(b"a"), index=-1))
    observe("unknown id", topic.produce(batch(b"a"), topic_id=bytes(range(16))))
    observe("zero id", topic.produce(batch(b"a"), topic_id=bytes(15) + b"\x01"))
    observe("unknown name", topic.produce(batch(b"a"), 12, name="no-such-topic-anywhere"))
    observe("impossible name", topic.produce(batch(b"a"), 12, name="no/such"))


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_do_not_exist(wire_topic: Make, observe: Observations, acks: int) -> None:
    topic = wire_topic()
    observe("response", outcome(topic.produce, batch(b"a"), acks=acks))


def malformed() -> dict[str, bytes]:
    good = batch(b"first", b"second")
    length_at, magic_at, crc_at, count_at, delta_at = 8, 16, 17, 57, 23
    return {
        "no records": b"",
        "wrong crc": with_byte(good, crc_at, good[crc_at] ^ 1),
        "flipped bit in a record": with_byte(good, len(good) - 2, good[-2] ^ 1),
        "two batches": good + good,
        "batch and a half": good + good[:40],
        "cut": good[:-3],
        "half a header": good[:30],
        "ten bytes": good[:10],
        "trailing byte": good + b"\x00",
        "length too small": good[:length_at] + struct.pack(">i", 10) + good[length_at + 4 :],
        "length negative": good[:length_at] + struct.pack(">i", -1) + good[length_at + 4 :],
        "length too large": good[:length_at] + struct.pack(">i", 100_000) + good[length_at + 4 :],
        "magic 3": with_byte(good, magic_at, 3),
        "magic 255": with_byte(good, magic_at, 255),
        "count one too many": resealed(good[:count_at] + struct.pack(">i", 3) + good[count_at + 4 :]),
        "count one too few": resealed(good[:count_at] + struct.pack(">i", 1) + good[count_at + 4 :]),
        "count negative": resealed(good[:count_at] + struct.pack(">i", -5) + good[count_at + 4 :]),
        "count 0": resealed(good[:count_at] + struct.pack(">i", 0) + good[count_at + 4 :]),
        "last offset delta too large": resealed(good[:delta_at] + struct.pack(">i", 7) + good[delta_at + 4 :]),
        "last offset delta negative": resealed(good[:delta_at] + struct.pack(">i", -1) + good[delta_at + 4 :]),
        "base offset not zero": batch(b"a", base_offset=55),
        "compression type 5": resealed(with_byte(good, 22, 5)),
        "control batch": build_control_batch(1, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS),
        "log append time from a client": batch(b"a", timestamp_type=1),
        "an empty batch": build_batch([]),
    }


#: Apache Kafka fails with UNKNOWN_SERVER_ERROR here; kwire refuses the record.
UNFORESEEN_BY_KAFKA = {"compression type 5"}


@pytest.mark.parametrize("what", sorted(malformed()))
def test_malformed_batches(
    wire_topic: Make, observe: Observations, reconnect: Callable[[Topic], Topic], what: str
) -> None:
    topic = wire_topic()
    response = outcome(topic.produce, malformed()[what])
    if what in UNFORESEEN_BY_KAFKA:
        assert response["error_code"] in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_RECORD)
    else:
        observe("response", response)
    if response == "closed":
        topic = reconnect(topic)
    observe("after it", topic.produce(batch(b"fine")))
    observe("stored", topic.fetch(0))


def test_too_large_batches(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic(configs={"max.message.bytes": "1000"})
    observe("just fits", topic.produce(batch(b"x" * 900)))
    observe("too large", topic.produce(batch(b"x" * 1000)))


def test_timestamps_too_far_from_now(wire_topic: Make, observe: Observations) -> None:
    hour = 3_600_000
    topic = wire_topic(
        configs={"message.timestamp.before.max.ms": str(hour), "message.timestamp.after.max.ms": str(hour)}
    )
    for what, shift in {"old": -2 * hour, "new": 2 * hour, "good": 0}.items():
        observe(what, topic.produce(batch(b"a", b"b", timestamp=int(time.time() * 1000) + shift)))
    observe("none", topic.produce(build_batch([Record(timestamp=-1, value=b"a")])))


def test_the_default_bound_on_future_timestamps(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    observe("two hours ahead", topic.produce(batch(b"a", timestamp=int(time.time() * 1000) + 7_300_000)))
    observe("far past", topic.produce(batch(b"a", timestamp=0)))


@pytest.mark.parametrize("compression", [0, 2])
def test_log_append_time(wire_topic: Make, observe: Observations, compression: int) -> None:
    topic = wire_topic(configs={"message.timestamp.type": "LogAppendTime"})
    observe("response", topic.produce(batch(b"a", b"b", timestamp=5, compression=compression)))
    stored = topic.fetch(0)["responses"][0]["partitions"][0]["records"]
    observe("attributes", stored[21:23])
    (max_timestamp,) = struct.unpack_from(">q", stored, 35)
    assert NOW_MS <= max_timestamp <= time.time() * 1000


@pytest.mark.parametrize("kind", ["gzip", "lz4", "uncompressed"])
def test_the_topic_decides_the_compression(wire_topic: Make, observe: Observations, kind: str) -> None:
    topic = wire_topic(configs={"compression.type": kind})
    for compression in range(5):
        observe(f"answer {compression}", topic.produce(batch(b"x" * 500, b"y" * 500, compression=compression)))
    stored = topic.fetch(0)["responses"][0]["partitions"][0]["records"]
    attributes = []
    while stored:
        attributes.append(stored[22])
        stored = stored[12 + struct.unpack_from(">i", stored, 8)[0] :]
    observe("stored as", attributes)


def test_compacted_topics_need_keys(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic(configs={"cleanup.policy": "compact"})
    observe("keyed", topic.produce(batch(b"a")))
    observe("keyless", topic.produce(batch(b"a", b"b", key=None)))
    records = [Record(timestamp=NOW_MS, key=b"k", value=b"v"), Record(timestamp=NOW_MS, value=b"v")]
    observe("second keyless", topic.produce(build_batch(records)))
    observe("second keyless, compressed", topic.produce(build_batch(records, compression=3)))


def producer(topic: Topic) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    while (response := topic.client.call(request, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass  # Apache Kafka requests its first block of producer ids when a client needs one
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


def test_idempotent_sequences(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    producer_id, _ = producer(topic)

    def send(*values: bytes, sequence: int, epoch: int = 0) -> dict[str, Any]:
        data = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        return topic.produce(data)

    steps = {
        "first": send(b"a", b"b", sequence=0),
        "next": send(b"c", sequence=2),
        "duplicate": send(b"c", sequence=2),
        "older duplicate": send(b"a", b"b", sequence=0),
        "gap": send(b"z", sequence=9),
        "half a duplicate": send(b"b", sequence=1),
        "overlap": send(b"c", b"d", sequence=2),
        "next again": send(b"d", sequence=3),
        "new epoch, sequence not 0": send(b"e", sequence=4, epoch=1),
        "new epoch": send(b"e", sequence=0, epoch=1),
        "old epoch": send(b"f", sequence=4, epoch=0),
    }
    for number in range(1, 8):
        steps[f"run {number}"] = send(b"r", sequence=number, epoch=1)
    steps["a duplicate that is forgotten"] = send(b"e", sequence=0, epoch=1)
    steps["a duplicate that is remembered"] = send(b"r", sequence=4, epoch=1)
    observe("steps", steps)


def test_sequences_wrap_around(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    producer_id, _ = producer(topic)
    last = 2**31 - 1
    first = topic.produce(batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=last))
    observe("unknown producer in the middle", first)
    second = topic.produce(batch(b"b", b"c", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    observe("after the wrap", second)


def test_producer_fields_that_make_no_sense(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    observe("id without epoch", topic.produce(batch(b"a", producer_id=5, producer_epoch=-1, base_sequence=0)))
    observe("id without sequence", topic.produce(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=-1)))
    observe("epoch without id", topic.produce(batch(b"a", producer_id=-1, producer_epoch=3, base_sequence=0)))
    observe("unknown id", topic.produce(batch(b"a", producer_id=987_654, producer_epoch=0, base_sequence=0)))
    observe("unknown id, later", topic.produce(batch(b"a", producer_id=987_655, producer_epoch=0, base_sequence=7)))


def test_failures_with_acks_0_close_the_connection(
    wire_topic: Make, observe: Observations, reconnect: Callable[[Topic], Topic]
) -> None:
    topic = wire_topic()
    request = topic.fetch_request(0)
    topic.client.send(*produce_request(topic, batch(b"a"), acks=0))
    observe("goes on", topic.client.call(request, 16).error_code)
    topic.client.send(*produce_request(topic, batch(b"a"), acks=0, index=5))
    observe("unknown partition", outcome(lambda: topic.client.call(request, 16).error_code))
    topic = reconnect(topic)
    observe("stored", topic.fetch(0)["responses"][0]["partitions"][0]["high_watermark"])


def produce_request(topic: Topic, records: bytes, acks: int, index: int = 0) -> tuple[Any, int]:
    from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

    data = TopicProduceData(
        name=topic.name, topic_id=topic.id, partition_data=[PartitionProduceData(index=index, records=records)]
    )
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data]), 13


@pytest.mark.parametrize("client_id", ["wire", "__admin_client"])
def test_clients_do_not_write_to_internal_topics(broker: Broker, observe: Observations, client_id: str) -> None:
    records = batch(None, key=struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 0))  # no offset was committed
    if client_id == "__admin_client":  # refused for another reason: Kafka's coordinator would load its log again
        records = with_byte(records, 17, records[17] ^ 1)
    with WireClient(broker.bootstrap, client_id) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)  # creates the topic
        offsets = Topic(client, "__consumer_offsets")
        observe("each version", {v: offsets.produce(records, v)["error_code"] for v in versions(3, 13)})
        refused = offsets.produce(records)
        observe("fields", {name: value for name, value in refused.items() if name != "base_offset"})
        observe("acks=1", offsets.produce(records, acks=1)["error_code"])
        observe("no such partition", offsets.produce(records, index=99)["error_code"])
        observe("acks=7", offsets.produce(records, acks=7)["error_code"])
        observe("no records", offsets.produce(b"")["error_code"])
        observe("acks=0", outcome(offsets.produce, records, acks=0))
