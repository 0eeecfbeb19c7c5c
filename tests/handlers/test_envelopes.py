"""What an Envelope carries, byte by byte."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.handlers.envelopes import (
    enclosed,
    packed_address,
    packed_principal,
    taken_out,
    unpacked_address,
    unpacked_principal,
)
from kwire.security.principals import Principal

ALICE = Principal("User", "alice")
PACKED = bytes.fromhex("0000 0555736572 06616c696365 00 00")
"""User:alice as Kafka's `DefaultKafkaPrincipalBuilder` serializes it."""


def test_a_principal_travels_as_in_kafka() -> None:
    assert packed_principal(ALICE, False) == PACKED
    assert unpacked_principal(PACKED) == (ALICE, False)
    assert unpacked_principal(packed_principal(ALICE, True)) == (ALICE, True)


@pytest.mark.parametrize("packed", [None, b"", b"\0", b"\0\0", PACKED[:-2], b"\0\1" + PACKED[2:], b"\xff" * 20])
def test_a_broken_principal_is_refused(packed: bytes | None) -> None:
    with pytest.raises(KafkaError) as caught:
        unpacked_principal(packed)
    assert caught.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        ("/127.0.0.1", b"\x7f\0\0\1"),
        ("/0:0:0:0:0:0:0:1", bytes(15) + b"\1"),
        ("/fe80:0:0:0:0:0:0:2", b"\xfe\x80" + bytes(13) + b"\2"),
    ],
)
def test_an_address_travels_as_its_bytes(host: str, packed: bytes) -> None:
    assert packed_address(host) == packed
    assert unpacked_address(packed) == host


def test_an_interface_is_left_out_of_an_address() -> None:
    assert packed_address("/fe80:0:0:0:0:0:0:2%eth0") == b"\xfe\x80" + bytes(13) + b"\2"


def test_an_ipv4_address_in_an_ipv6_one_is_an_ipv4_address() -> None:
    assert unpacked_address(bytes(10) + b"\xff\xff\x7f\0\0\1") == "/127.0.0.1"


@pytest.mark.parametrize("packed", [b"", b"\x7f\0\0", b"127.0.0.1", bytes(17)])
def test_a_broken_address_is_refused(packed: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        unpacked_address(packed)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_response_is_taken_out_as_it_was_enclosed(version: int) -> None:
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=29)])
    envelope = enclosed(response, version, 17)
    assert envelope.error_code == 0
    assert (envelope.response_data or b"")[:4] == (17).to_bytes(4, "big")
    assert taken_out(envelope, response.API_KEY, version).topics[0].error_code == 29


def test_the_response_of_a_former_controller_is_not_passed_on() -> None:
    response = CreateTopicsResponse(
        topics=[CreatableTopicResult(name="orders"), CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)]
    )
    envelope = enclosed(response, 7, 17)
    assert (envelope.error_code, envelope.response_data) == (ErrorCode.NOT_CONTROLLER, None)
