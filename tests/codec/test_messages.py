"""Messages <-> bytes: round trips of every class and version, golden bytes, parts, headers and internal records."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.random_messages import message_classes, random_message, versions_of
from kwire.codec import protocol
from kwire.codec.errors import CodecError
from kwire.codec.message import Message
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codec.messages.group_metadata_value import GroupMetadataValue
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_commit_key import OffsetCommitKey
from kwire.codec.messages.offset_commit_value import OffsetCommitValue
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.messages.response_header import ResponseHeader
from kwire.codec.primitives import read_varint, varint
from kwire.codec.protocol import ApiKey, decode, encode, encode_parts
from kwire.codec.schema import fields_of

CLASSES = message_classes()
PAIRS = [(cls, version) for cls in CLASSES for version in versions_of(cls)]


def produce(records: object, **more: object) -> ProduceRequest:
    data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=3, records=records)])]  # type: ignore[arg-type]
    return ProduceRequest(acks=-1, timeout_ms=1500, topic_data=data, **more)  # type: ignore[arg-type]


def fetched(records: object) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=9, records=records)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


class SomeFile:
    size = 12345


def test_every_api_of_kafka_has_classes_for_its_versions() -> None:
    for key, facts in protocol.API_FACTS.items():
        if facts.last_version < facts.first_version:
            continue
        for cls in (protocol.request_class(key), protocol.response_class(key)):
            assert key == cls.API_KEY
            assert (facts.first_version, facts.last_version) == cls.VALID_VERSIONS
            assert cls.__name__.lower().startswith(ApiKey(key).name.replace("_", "").lower())
    assert len(protocol.API_FACTS) == len(ApiKey) == 93


@pytest.mark.parametrize("seed", range(4))
def test_random_messages_of_every_version_survive_a_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    for cls, version in PAIRS:
        message = random_message(cls, version, rng)
        data = encode(message, version)
        decoded, end = decode(cls, version, b"##" + data + b"##", 2)
        assert end == len(data) + 2
        assert decoded == message, f"{cls.__name__} v{version}"
        assert encode(decoded, version) == data


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PAIRS), st.integers(0, 2**64))
def test_a_message_survives_a_round_trip_through_parts_and_a_memoryview(
    pair: tuple[type[Message], int], seed: int
) -> None:
    cls, version = pair
    message = random_message(cls, version, random.Random(seed))
    data = b"".join(encode_parts(message, version))
    assert data == encode(message, version)
    assert decode(cls, version, memoryview(bytearray(data)))[0] == message


def test_defaults_survive_a_round_trip_in_every_version() -> None:
    for cls, version in PAIRS:
        data = encode(cls(), version)
        assert decode(cls, version, data) == (cls(), len(data))


def test_produce_request_has_the_bytes_of_the_protocol() -> None:
    expected = "ffffffff000005dc0000000100066f7264657273000000010000000300000003616263"
    assert encode(produce(b"abc"), 3).hex() == expected
    expected = "00ffff000005dc02076f7264657273020000000304616263000000"
    assert encode(produce(b"abc"), 9).hex() == expected


def test_api_versions_request_has_the_bytes_of_the_protocol() -> None:
    request = ApiVersionsRequest(client_software_name="kw", client_software_version="1")
    assert encode(request, 3).hex() == "036b77023100"
    assert encode(ApiVersionsRequest(), 0) == b""


def test_metadata_for_all_topics_is_null_not_empty() -> None:
    assert encode(MetadataRequest(topics=None), 1).hex() == "ffffffff"
    assert encode(MetadataRequest(topics=[]), 1).hex() == "00000000"
    assert decode(MetadataRequest, 9, bytes.fromhex("0000000000"))[0].topics is None


def test_a_length_above_one_varint_byte_is_written_and_read() -> None:
    for size in (126, 127, 128, 16382, 16383, 32767):
        message = MetadataRequest(topics=[MetadataRequestTopic(name="n" * size)])
        assert decode(MetadataRequest, 9, encode(message, 9))[0] == message


def test_varints_of_each_length_are_as_short_as_they_can_be() -> None:
    for bits in (7, 14, 21, 28, 31):
        for value in (2**bits - 1, 2**bits) if bits < 31 else (2**bits - 1,):
            written = varint(value)
            assert read_varint(written, 0) == (value, len(written))
            assert len(written) == -(-value.bit_length() // 7)


def test_decoded_records_are_a_view_into_the_frame() -> None:
    frame = bytearray(b"head" + encode(produce(b"R" * 100), 9))
    decoded, _ = decode(ProduceRequest, 9, frame, 4)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    position = frame.index(b"RRR")
    frame[position] = ord("X")
    assert records[0] == ord("X")


def test_null_records_are_not_empty_records() -> None:
    for version in range(4, 13):
        for records in (None, b""):
            decoded, _ = decode(FetchResponse, version, encode(fetched(records), version))
            assert decoded.responses[0].partitions[0].records == records


def test_large_records_and_files_are_parts_of_their_own() -> None:
    large, view, file = b"L" * 4096, memoryview(b"V" * 5000), SomeFile()
    for records, size in ((large, 4096), (view, 5000), (file, 12345)):
        head, middle, tail = encode_parts(fetched(records), 12, b"PRE")
        assert middle is records
        assert head.startswith(b"PRE") and tail == bytes(3)
        filled = decode(FetchResponse, 12, bytes(head) + bytes(size) + bytes(tail), 3)[0]
        assert filled.responses[0].partitions[0].records == bytes(size)


def test_small_records_are_copied_into_the_frame() -> None:
    (only,) = encode_parts(fetched(b"s" * 4095), 12, b"PRE")
    assert only == b"PRE" + encode(fetched(b"s" * 4095), 12)


def test_a_file_cannot_be_encoded_into_one_bytes_object() -> None:
    with pytest.raises(CodecError):
        encode(fetched(SomeFile()), 12)


def test_tagged_fields_are_written_in_ascending_order_among_unknown_ones() -> None:
    response = fetched(None)
    response.unknown_tags = ((7, b"xx"),)
    partition = response.responses[0].partitions[0]
    partition.current_leader.leader_id = 5
    partition.unknown_tags = ((0x80, b""), (300, b"z"))
    data = encode(response, 12)
    assert decode(FetchResponse, 12, data)[0] == response
    assert data.endswith(bytes.fromhex("0107027878"))


@pytest.mark.parametrize("tags", [((3, b""), (3, b"")), ((4, b""), (3, b"")), ((-1, b""),)])
def test_unknown_tags_out_of_order_cannot_be_written(tags: tuple[tuple[int, bytes], ...]) -> None:
    with pytest.raises(CodecError):
        encode(ApiVersionsRequest(unknown_tags=tags), 3)


def test_a_field_that_the_version_lacks_is_refused_unless_it_is_ignorable() -> None:
    with pytest.raises(CodecError, match="transactions"):
        from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction

        encode(AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction()]), 3)
    ignorable = TopicProduceData(name="gone", topic_id=b"i" * 16)
    assert b"gone" not in encode(ProduceRequest(topic_data=[ignorable]), 13)
    with pytest.raises(CodecError, match="unknown_tags"):
        encode(MetadataRequest(unknown_tags=((1, b""),)), 8)


@pytest.mark.parametrize(
    "message",
    [
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]),
        MetadataRequest(topics=[MetadataRequestTopic(name="n" * 32768)]),
        MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]),
        MetadataRequest(topics=[MetadataRequestTopic(name=7)]),  # type: ignore[arg-type]
        MetadataRequest(topics=[None]),  # type: ignore[list-item]
        MetadataRequest(topics=7),  # type: ignore[arg-type]
        produce(b"", transactional_id=b"bytes"),
    ],
)
@pytest.mark.parametrize("version", [3, 9])
def test_what_cannot_be_written_raises_only_codec_errors(message: Message, version: int) -> None:
    with pytest.raises(CodecError):
        encode(message, version)


def test_an_unknown_version_is_refused() -> None:
    for version in (-1, 14, 32767):
        with pytest.raises(CodecError):
            encode(MetadataRequest(), version)
        with pytest.raises(CodecError):
            decode(MetadataRequest, version, b"")


def test_header_versions_follow_the_tables() -> None:
    assert protocol.request_header_version(ApiKey.PRODUCE, 8) == 1
    assert protocol.request_header_version(ApiKey.PRODUCE, 9) == 2
    assert protocol.request_header_version(ApiKey.API_VERSIONS, 99) == 2
    assert protocol.response_header_version(ApiKey.PRODUCE, 9) == 1
    assert protocol.response_header_version(ApiKey.SASL_HANDSHAKE, 1) == 0
    assert [protocol.response_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [0] * 5
    for key in (-1, 4, 7, 93):
        with pytest.raises(CodecError):
            protocol.request_header_version(key, 0)


@pytest.mark.parametrize("client_id", [None, "", "kcat", "n\u00e9" * 200])
@pytest.mark.parametrize("version", [3, 9])
def test_request_headers_are_decoded_like_the_generated_class_does(client_id: str | None, version: int) -> None:
    tags = ((0, b"a"), (200, b"")) if version == 9 else ()
    header = RequestHeader(request_api_version=version, correlation_id=77, client_id=client_id, unknown_tags=tags)
    data = encode(header, protocol.request_header_version(0, version))
    assert protocol.decode_request_header(data + b"body") == (header, len(data))
    assert protocol.decode_request_header(memoryview(data + b"body")) == (header, len(data))
    for end in range(len(data)):
        with pytest.raises(CodecError):
            protocol.decode_request_header(data[:end])


def test_response_headers_are_encoded_like_the_generated_class_does() -> None:
    for key, version in ((ApiKey.PRODUCE, 8), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 4)):
        expected = encode(ResponseHeader(correlation_id=5), protocol.response_header_version(key, version))
        assert protocol.encode_response_header(key, version, 5) == expected


def test_internal_record_keys_begin_with_their_type_and_values_with_their_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=4)
    data = protocol.encode_record_key(key)
    assert data.hex() == "000100016700017400000004"
    assert protocol.decode_record_key({1: OffsetCommitKey}, data) == key
    value = OffsetCommitValue(offset=42, metadata="m", commit_timestamp=7)
    data = protocol.encode_record(value, 3)
    assert data.startswith(struct.pack(">hq", 3, 42))
    assert protocol.decode_record(OffsetCommitValue, memoryview(data)) == value


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x05", b"\x7f\xff", b"\x00\x01"])
def test_malformed_internal_records_raise_codec_errors(data: bytes) -> None:
    with pytest.raises(CodecError):
        protocol.decode_record_key({1: OffsetCommitKey}, data)
    with pytest.raises(CodecError):
        protocol.decode_record(GroupMetadataValue, data)


def test_instances_do_not_share_lists_or_structs() -> None:
    for cls in CLASSES:
        first, second = cls(), cls()
        for field in fields_of(cls):
            if isinstance(getattr(first, field.name), list) or field.struct is not None:
                value = getattr(first, field.name)
                assert value is None or value is not getattr(second, field.name)


def test_equality_looks_at_every_field_and_the_class() -> None:
    assert MetadataRequest() == MetadataRequest()
    assert MetadataRequest() != MetadataRequest(allow_auto_topic_creation=False)
    assert MetadataRequest() != MetadataRequest(unknown_tags=((1, b""),))
    assert MetadataRequest() != ApiVersionsRequest()
    assert repr(MetadataRequestTopic(name="x", unknown_tags=((1, b"y"),))) == (
        f"MetadataRequestTopic(topic_id={bytes(16)!r}, name='x', unknown_tags=((1, b'y'),))"
    )


def test_the_text_of_a_message_hides_secrets() -> None:
    from kwire.codec.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion

    text = repr(ScramCredentialUpsertion(name="alice", salted_password=b"planted"))
    assert "planted" not in text
    assert "name='alice'" in text
    assert "salted_password=<7 bytes>" in text
