"""The record of what tests saw on one broker, compared with what the same test saw on the other.

A test calls ``observe(name, value)`` with plain data (what JSON can hold). The first kind to come writes it to a file,
the second asserts that its own is equal: a behaviour on which the brokers differ fails the test. Files, because the
two kinds may run in two test processes at once.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

FOLDER_VARIABLE = "KWIRE_COMPAT_OBSERVATIONS"


def folder() -> Path:
    """Where observations are. The first process of a run makes it, and those that it starts inherit it; set
    KWIRE_COMPAT_OBSERVATIONS to keep what one broker showed for a later run of the other."""
    if FOLDER_VARIABLE not in os.environ:
        temporary = tempfile.TemporaryDirectory(prefix="kwire-observations-")
        atexit.register(temporary.cleanup)
        os.environ[FOLDER_VARIABLE] = temporary.name
    path = Path(os.environ[FOLDER_VARIABLE])
    path.mkdir(parents=True, exist_ok=True)
    return path


def started_ms() -> int:
    """When this comparison began, in milliseconds: the same number in the tests of both kinds."""
    try:
        with open(folder() / "started_ms", "x") as file:
            file.write(f"{time.time_ns() // 1_000_000:d}")
    except FileExistsError:
        pass
    return int((folder() / "started_ms").read_text())


class Observations:
    """What one test on one broker kind has seen."""

    def __init__(self, folder: Path, test: str, kind: str) -> None:
        self._folder = folder
        self._test = test
        self._kind = kind
        self._names: set[str] = set()

    def __call__(self, name: str, value: Any) -> None:
        """Record `value` under `name` (once per test) and compare it with the other broker's, if that is there."""
        assert name not in self._names, f"{name!r} is observed twice in one test"
        self._names.add(name)
        text = json.dumps(_plain(value), sort_keys=True, indent=1)
        self._path(self._kind, name).write_text(text)
        other = "kafka" if self._kind == "kwire" else "kwire"
        theirs = self._path(other, name)
        if theirs.exists():
            seen = {self._kind: json.loads(text), other: json.loads(theirs.read_text())}
            if seen["kwire"] != seen["kafka"]:
                pytest.fail(f"the brokers differ on {name!r}:\n{difference(seen['kafka'], seen['kwire'])}")

    def _path(self, kind: str, name: str) -> Path:
        digest = hashlib.sha256(f"{self._test}\0{name}".encode()).hexdigest()[:24]
        return self._folder / f"{digest}.{kind}.json"


def _plain(value: Any) -> Any:
    """Reduce bytes, tuples and sets to what JSON can hold, without losing a difference."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes:" + bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def difference(kafka: Any, kwire: Any, path: str = "") -> str:
    """The places where two values differ, one per line, at most forty."""
    lines = list(_differences(kafka, kwire, path))
    more = [f"... and {len(lines) - 40} more"] if len(lines) > 40 else []
    return "\n".join(lines[:40] + more)


def _differences(kafka: Any, kwire: Any, path: str) -> list[str]:
    if isinstance(kafka, dict) and isinstance(kwire, dict):
        lines = []
        for key in sorted(kafka.keys() | kwire.keys()):
            if key not in kwire:
                lines.append(f"{path}.{key}: only Kafka has it: {kafka[key]!r}")
            elif key not in kafka:
                lines.append(f"{path}.{key}: only kwire has it: {kwire[key]!r}")
            else:
                lines += _differences(kafka[key], kwire[key], f"{path}.{key}")
        return lines
    if isinstance(kafka, list) and isinstance(kwire, list) and len(kafka) == len(kwire):
        pairs = enumerate(zip(kafka, kwire, strict=True))
        return [line for index, (one, two) in pairs for line in _differences(one, two, f"{path}[{index}]")]
    return [] if kafka == kwire else [f"{path or 'value'}: Kafka {kafka!r}, kwire {kwire!r}"]
