"""Messages are decoded and encoded in slices with the outcome of one go."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest

from harness.random_messages import message_classes, random_message, versions_of
from kwire.codec.errors import CodecError
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.protocol import ELEMENT_BUDGET, decode, decode_in_slices, encode, encode_in_slices


def run(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """How many steps there were before the result, and the result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def decoded(cls: Any, version: int, data: bytes, size: int = 1, budget: int = ELEMENT_BUDGET) -> tuple[int, Any]:
    return run(decode_in_slices(cls, version, b"##" + data + b"##", 2, budget, size))


def offsets(*sizes: int) -> ListOffsetsRequest:
    partitions = [[ListOffsetsPartition(partition_index=at) for at in range(size)] for size in sizes]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=each) for each in partitions])


def test_random_messages_have_the_same_bytes_and_fields() -> None:
    rng = random.Random(7)
    for cls in message_classes():
        version = rng.choice(versions_of(cls))
        message = random_message(cls, version, rng)
        data = encode(message, version)
        assert run(encode_in_slices(message, version, 1))[1] == data
        assert decoded(cls, version, data)[1] == (message, len(data) + 2)


@pytest.mark.parametrize("version", [1, 11])
@pytest.mark.parametrize(
    ("sizes", "slice_elements", "steps"), [((9,), 5, 2), ((9,), 100, 0), ((2, 2, 2), 3, 3), ((0, 0), 1, 2), ((), 1, 0)]
)
def test_a_slice_has_a_bounded_number_of_elements_of_all_arrays(
    version: int, sizes: tuple[int, ...], slice_elements: int, steps: int
) -> None:
    request = offsets(*sizes)
    data = encode(request, version)
    assert decoded(ListOffsetsRequest, version, data, slice_elements) == (steps, (request, len(data) + 2))
    assert run(encode_in_slices(request, version, slice_elements)) == (steps, data)


def test_a_message_without_arrays_takes_no_step() -> None:
    data = encode(HeartbeatRequest(group_id="g"), 4)
    assert decoded(HeartbeatRequest, 4, data) == (0, (HeartbeatRequest(group_id="g"), len(data) + 2))
    assert run(encode_in_slices(HeartbeatRequest(group_id="g"), 4, 1)) == (0, data)


def test_malformed_bytes_are_refused_with_the_same_words() -> None:
    data = encode(offsets(3, 3), 9)
    for end in range(len(data)):
        with pytest.raises(CodecError) as at_once:
            decode(ListOffsetsRequest, 9, data[:end])
        with pytest.raises(CodecError) as in_slices:
            run(decode_in_slices(ListOffsetsRequest, 9, data[:end], 0, ELEMENT_BUDGET, 2))
        assert str(in_slices.value) == str(at_once.value)
    with pytest.raises(CodecError, match="more elements"):
        decoded(ListOffsetsRequest, 9, data, budget=5)
    with pytest.raises(CodecError, match="versions"):
        decoded(ListOffsetsRequest, 99, data)


def test_what_a_version_cannot_carry_is_refused_in_slices_too() -> None:
    wrong = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name=None)])  # type: ignore[arg-type]
    with pytest.raises(CodecError):
        run(encode_in_slices(wrong, 7, 1))
