"""Any bytes are a message or a `CodecError`, soon and in little memory."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.random_messages import message_classes, random_message, versions_of
from kwire.codec.errors import CodecError
from kwire.codec.message import Message
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import ProduceRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.primitives import varint
from kwire.codec.protocol import decode, decode_request_header, encode

PAIRS = [(cls, version) for cls in message_classes() for version in versions_of(cls)]
MIB = 1 << 20


def decodes_or_refuses(cls: type[Message], version: int, data: bytes) -> None:
    """The property itself; what decodes can also be encoded."""
    try:
        message, end = decode(cls, version, data)
    except CodecError:
        return
    assert 0 <= end <= len(data)
    encode(message, version)


def refused(cls: type[Message], version: int, data: bytes, match: str) -> None:
    with pytest.raises(CodecError, match=match):
        decode(cls, version, data)


def test_a_message_cut_at_any_byte_is_refused() -> None:
    rng = random.Random(5)
    for cls, version in PAIRS[::3]:
        data = encode(random_message(cls, version, rng), version)
        for end in sorted({*range(min(len(data), 40)), *rng.sample(range(len(data) + 1), min(len(data), 10))}):
            if end < len(data):
                with pytest.raises(CodecError):
                    decode(cls, version, data[:end])


@pytest.mark.parametrize("seed", range(3))
def test_mutated_messages_decode_or_are_refused(seed: int) -> None:
    rng = random.Random(seed)
    for cls, version in PAIRS:
        data = bytearray(encode(random_message(cls, version, rng), version))
        for _ in range(5):
            for _ in range(rng.randint(1, 3)):
                if data:
                    data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            decodes_or_refuses(cls, version, bytes(data))


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_random_bytes_decode_or_are_refused(pair: tuple[type[Message], int], data: bytes) -> None:
    decodes_or_refuses(*pair, data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_random_request_headers_decode_or_are_refused(data: bytes) -> None:
    try:
        _, end = decode_request_header(data)
    except CodecError:
        return
    assert 10 <= end <= len(data)


def test_an_array_longer_than_the_frame_is_refused() -> None:
    refused(MetadataRequest, 1, bytes.fromhex("7fffffff") + bytes(100), "topics has length")
    refused(MetadataRequest, 9, varint(0x7FFFFFFF) + bytes(100), "topics has length")
    assert decode(MetadataRequest, 1, bytes.fromhex("80000000"))[0].topics is None


def test_a_string_longer_than_the_frame_is_refused() -> None:
    refused(HeartbeatRequest, 0, bytes.fromhex("7fff") + b"short", "group_id has length")
    refused(HeartbeatRequest, 4, varint(1000) + b"short", "group_id has length")


def test_a_compact_string_longer_than_any_string_may_be_is_refused() -> None:
    refused(HeartbeatRequest, 4, varint(32769) + b"x" * 40000, "group_id has length 32768")


def test_bytes_longer_than_the_frame_are_refused() -> None:
    refused(SaslAuthenticateRequest, 0, bytes.fromhex("7fffffff00"), "auth_bytes has length")
    refused(SaslAuthenticateRequest, 2, varint(50) + b"short", "auth_bytes has length")


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    refused(HeartbeatRequest, 0, bytes.fromhex("ffff"), "group_id is null")
    refused(HeartbeatRequest, 4, bytes(1), "group_id is null")
    refused(MetadataRequest, 0, bytes.fromhex("ffffffff"), "topics is null")
    refused(SaslAuthenticateRequest, 0, bytes.fromhex("ffffffff"), "auth_bytes is null")


def test_text_that_is_not_utf_8_is_refused() -> None:
    refused(HeartbeatRequest, 0, bytes.fromhex("0002c328"), "UTF-8")
    refused(ProduceRequest, 3, bytes.fromhex("0002c328"), "UTF-8")


def test_a_varint_of_more_than_31_bits_is_refused() -> None:
    for data in ("ffffffffff", "ffffffff0f", "8080808008", "80808080808080"):
        refused(MetadataRequest, 9, bytes.fromhex(data) + bytes(20), "varint")


@pytest.mark.parametrize(
    ("tags", "match"),
    [
        ("0201000100", "tag 1 comes after tag 1"),
        ("0202000100", "tag 1 comes after tag 2"),
        ("010105", "tag 1 has 5 bytes"),
        ("7f0100", "ends early"),
        ("ffffffff07", "too many"),
    ],
)
def test_malformed_tagged_fields_are_refused(tags: str, match: str) -> None:
    refused(ApiVersionsRequest, 3, bytes.fromhex("0101" + tags), match)


def test_a_known_tagged_field_must_fill_its_size_and_belong_to_the_version() -> None:
    body = encode(FetchResponse(), 16)[:-1]
    assert decode(FetchResponse, 16, body + bytes.fromhex("01000101"))[0].node_endpoints == []
    refused(FetchResponse, 16, body + bytes.fromhex("0100020100"), "node_endpoints")
    refused(FetchResponse, 15, body + bytes.fromhex("01000101"), "node_endpoints")
    refused(
        BrokerHeartbeatRequest, 0, encode(BrokerHeartbeatRequest(), 0)[:-1] + bytes.fromhex("01000101"), "version 0"
    )


def test_a_budget_bounds_the_elements_of_a_message() -> None:
    request = MetadataRequest(topics=[])
    data = bytearray(encode(request, 0))
    data[3:4] = b"\x64"
    data += bytes(2 * 100)
    assert len(decode(MetadataRequest, 0, data, budget=400)[0].topics or ()) == 100
    with pytest.raises(CodecError, match="more elements"):
        decode(MetadataRequest, 0, data, budget=50)


def test_nested_arrays_share_one_budget() -> None:
    partitions = varint(1001) + bytes(4 * 1000) + b"\0"
    topic = bytes(16) + partitions
    body = encode(ConsumerGroupHeartbeatRequest(topic_partitions=[]), 0)
    position = len(body) - 2
    assert body[position] == 1
    data = body[:position] + varint(101) + topic * 100 + b"\0"
    assert len(decode(ConsumerGroupHeartbeatRequest, 0, data)[0].topic_partitions or ()) == 100
    with pytest.raises(CodecError, match="more elements"):
        decode(ConsumerGroupHeartbeatRequest, 0, data, budget=50_000)


def test_tiny_structs_in_a_frame_of_100_mib_take_neither_seconds_nor_gigabytes() -> None:
    head = encode(ProduceRequest(), 9)[:-2]
    topic = bytes.fromhex("010100")
    topics = topic * (100 * MIB // len(topic))
    started = time.process_time()
    refused(ProduceRequest, 9, head + varint(33 * MIB + 1) + topics, "more elements")
    message, _ = decode(ProduceRequest, 9, head + varint(240_001) + topics)
    assert len(message.topic_data) == 240_000
    assert time.process_time() - started < 5


def test_each_unit_of_the_budget_takes_at_most_200_bytes() -> None:
    budget = 50_000
    data = encode(DeleteAclsRequest(filters=[DeleteAclsFilter(pattern_type_filter=1)] * (budget // 5)), 3)
    tracemalloc.start()
    try:
        assert len(decode(DeleteAclsRequest, 3, data, budget=budget)[0].filters) == budget // 5
        assert tracemalloc.get_traced_memory()[1] < 200 * budget
    finally:
        tracemalloc.stop()
    with pytest.raises(CodecError, match="more elements"):
        decode(DeleteAclsRequest, 3, data, budget=budget - 1)


def test_many_empty_tags_are_bounded_by_the_budget() -> None:
    tags = varint(600_000) + b"".join(varint(tag) + b"\0" for tag in range(1000)) + bytes(2_000_000)
    refused(ApiVersionsRequest, 3, b"\x01\x01" + tags, "too many")


def test_a_codec_error_never_quotes_the_bytes() -> None:
    secret = b"hunter2\xff"
    with pytest.raises(CodecError) as caught:
        decode(HeartbeatRequest, 0, b"\x00\x08" + secret)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
