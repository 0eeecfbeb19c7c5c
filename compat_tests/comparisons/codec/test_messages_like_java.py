"""Every message class and version against Kafka's own Java classes, byte for byte, in both directions.

For each class and version, Java (`MessageOracle.java`)

* encodes random messages, records included, from JSON;
* decodes and re-encodes kwire's bytes, with unknown tags, and damaged ones that kwire still decodes;
* encodes a message of default values;
* encodes messages made for another version, which either lose ignorable fields or are refused.
"""

from __future__ import annotations

import base64
import json
import queue
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java_programs import java_program
from harness.kafka_jars import kafka_jars_dir
from harness.random_messages import message_classes, random_message, versions_of
from kwire.codec.errors import CodecError
from kwire.codec.message import Message, Struct
from kwire.codec.protocol import decode, encode
from tools.message_tables import Field, MessageTable, read_tables

pytestmark = pytest.mark.java

SEED = 20260
SAME_VERSION = 200
OTHER_VERSION = 25
DAMAGED = 60
PACKAGES = {
    "kafka-clients": "org.apache.kafka.common.message",
    "kafka-group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "kafka-transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
    "kafka-share-coordinator": "org.apache.kafka.coordinator.share.generated",
    "kafka-storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "kafka-metadata": "org.apache.kafka.common.metadata",
}


class Oracle:
    """The JVM. A thread writes the questions, so that neither side blocks on a full pipe."""

    def __init__(self) -> None:
        command = java_program(Path(__file__).with_name("MessageOracle.java"), heap="512m")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._questions: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            while (line := self._questions.get()) is not None:
                pipe.write(line + "\n")
                pipe.flush()

    def ask(self, question: dict[str, Any]) -> None:
        self._questions.put(json.dumps(question))

    def answer(self) -> dict[str, list[str]]:
        assert self._process.stdout is not None
        answer: dict[str, list[str]] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._questions.put(None)
        self._process.wait(20)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    program = Oracle()
    yield program
    program.close()


class Case:
    """The random messages of one class and version, and how kwire encodes them."""

    def __init__(self, cls: type[Message], version: int, table: MessageTable) -> None:
        self.cls = cls
        self.version = version
        self._structs = {struct.name: struct.fields for struct in table.structs} | {table.name: table.fields}
        rng = random.Random(f"{SEED} {cls.__name__} {version}")
        plain = [random_message(cls, version, rng, unknown_tags=False) for _ in range(SAME_VERSION)]
        tagged = [random_message(cls, version, rng) for _ in range(SAME_VERSION)]
        self.encode: list[list[Any]] = [[version, None]] + [[version, self._json(each, version)] for each in plain]
        self.expected = [self._encoded(each) for each in [cls(), *plain]]
        for _ in range(OTHER_VERSION if len(versions_of(cls)) > 1 else 0):
            made_for = rng.choice([other for other in versions_of(cls) if other != version])
            other = random_message(cls, made_for, rng, unknown_tags=False)
            self.encode.append([made_for, self._json(other, made_for)])
            self.expected.append(self._encoded(other))
        self.decode = [encode(each, version) for each in tagged]
        self.rewritten = list(self.decode)
        for data in self.decode[:DAMAGED]:
            self._add_damaged(bytearray(data), rng)

    def _add_damaged(self, data: bytearray, rng: random.Random) -> None:
        """Change some bytes; Java must decode what kwire still decodes, with the same result."""
        for _ in range(rng.randint(1, 2) if data else 0):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            message, end = decode(self.cls, self.version, data)
        except CodecError:
            return
        if end == len(data):
            self.decode.append(bytes(data))
            self.rewritten.append(encode(message, self.version))

    def _encoded(self, message: Message) -> bytes | None:
        try:
            return encode(message, self.version)
        except CodecError:
            return None

    def _json(self, value: Struct, version: int) -> dict[str, Any]:
        fields = self._structs[type(value).__name__]
        return {
            field.kafka_name[0].lower() + field.kafka_name[1:]: self._field_json(
                getattr(value, field.name), field, version
            )
            for field in fields
            if field.versions.first <= version <= field.versions.last
        }

    def _field_json(self, value: Any, field: Field, version: int) -> Any:
        if value is None:
            return None
        if field.is_array:
            return [self._plain_json(each, field, version) for each in value]
        return self._plain_json(value, field, version)

    def _plain_json(self, value: Any, field: Field, version: int) -> Any:
        if isinstance(value, Struct):
            return self._json(value, version)
        if field.element == "uuid":
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value

    def question(self, java_class: str) -> dict[str, Any]:
        decode_these = [base64.b64encode(data).decode() for data in self.decode]
        return {"class": java_class, "version": self.version, "encode": self.encode, "decode": decode_these}


def java_class(table: MessageTable) -> str:
    suffix = "Data" if table.type in ("request", "response", "header") else ""
    return f"{PACKAGES[table.jar]}.{table.name}{suffix}"


def check(case: Case, answer: dict[str, list[str]]) -> list[str]:
    """The difference, as text."""
    name = f"{case.cls.__name__} v{case.version}"
    wrong = []
    for (made_for, text), mine, theirs in zip(case.encode, case.expected, answer["encode"], strict=True):
        java = None if theirs.startswith("!") else base64.b64decode(theirs)
        if mine != java:
            wrong.append(f"{name} encode, made for {made_for}: kwire {mine!r} Java {java or theirs!r} of {text}")
    for data, mine, theirs in zip(case.decode, case.rewritten, answer["decode"], strict=True):
        if theirs.startswith("!") or base64.b64decode(theirs) != mine:
            wrong.append(f"{name} decode {data.hex()}: kwire {mine.hex()} Java {theirs}")
    return wrong


def test_every_message_in_every_version_has_the_bytes_of_java(oracle: Oracle) -> None:
    tables = {table.name: table for table in read_tables(kafka_jars_dir())}
    requested: list[Case] = []
    wrong: list[str] = []
    for cls in message_classes():
        for version in versions_of(cls):
            case = Case(cls, version, tables[cls.__name__])
            oracle.ask(case.question(java_class(tables[cls.__name__])))
            requested.append(case)
            if len(requested) > 4:
                wrong += check(requested.pop(0), oracle.answer())
    for case in requested:
        wrong += check(case, oracle.answer())
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:50])


def test_the_oracle_tells_different_bytes_from_equal_ones(oracle: Oracle) -> None:
    from kwire.codec.messages.heartbeat_request import HeartbeatRequest

    table = next(table for table in read_tables(kafka_jars_dir()) if table.name == "HeartbeatRequest")
    case = Case(HeartbeatRequest, 4, table)
    case.expected[1] = b"something else"
    case.decode[0] += b"\0"
    oracle.ask(case.question(java_class(table)))
    assert len(check(case, oracle.answer())) >= 2
