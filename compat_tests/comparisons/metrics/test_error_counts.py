"""What counts as an error of a response, for ErrorsPerSec: each API and version, beside Kafka's own classes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from harness.java_runner import JavaRunner
from harness.random_messages import message_classes, random_message, versions_of
from kwire.codec.error_counts import error_counter
from kwire.codec.message import Message, Struct
from kwire.codec.protocol import encode
from kwire.codec.schema import fields_of

pytestmark = pytest.mark.java

RANDOM_MESSAGES = 4
CODES = (0, 0, -1, 3, 7, 36, 41)
NEVER_EMPTY = ("AddPartitionsToTxnResponse", "FindCoordinatorResponse")
"""Kafka counts the response's own code if there are no elements; brokers respond with at least one."""

Case = tuple[type[Message], int, Any]


def cases() -> Iterator[Case]:
    for cls in message_classes():
        if cls.__name__.endswith("Response"):
            for version in versions_of(cls):
                for number in range(RANDOM_MESSAGES):
                    rng = random.Random(f"{cls.__name__} {version} {number}")
                    message = random_message(cls, version, rng, unknown_tags=False)
                    set_errors(message, version, rng, count())
                    yield cls, version, message


def set_errors(struct: Struct, version: int, rng: random.Random, numbers: Iterator[int]) -> None:
    """Codes that Kafka knows, in the fields that the version has; each group and partition occurs once."""
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if version not in field.versions or value is None:
            continue
        if field.name.endswith("error_code"):
            setattr(struct, field.name, rng.choice(CODES))
        elif field.name in ("group_id", "partition_index"):
            number = next(numbers)
            setattr(struct, field.name, f"group {number}" if field.name == "group_id" else number)
        elif field.struct is not None:
            for each in value if field.array else [value]:
                set_errors(each, version, rng, numbers)


def test_errors_in_responses_are_counted_as_by_kafka(java: JavaRunner) -> None:
    sent = list(cases())
    lines = [f"{cls.API_KEY} {version} {bytes(encode(message, version)).hex()}" for cls, version, message in sent]
    found = java.tool("ErrorCounts", stdin="\n".join(lines) + "\n").check().out.splitlines()
    assert len(found) == len(sent)
    compared = set()
    for (cls, version, message), line in zip(sent, found, strict=True):
        expected = json.loads(line)
        counts = {0: 0}
        error_counter(cls, version)(message, counts)
        counts = {code: number for code, number in counts.items() if number}
        if expected is None or (not counts and cls.__name__ in NEVER_EMPTY):
            continue
        assert counts == {int(code): number for code, number in expected.items()}, (version, message)
        compared.add((cls, version))
    assert compared == {(cls, version) for cls, version, _ in sent}
