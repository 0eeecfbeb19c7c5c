"""What the tests of logins do with Spark: write, read and copy some texts, or try to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from compat_tests.clients.pyspark.frames import Frames, values
from compat_tests.names import Names

TEXTS: Final = ["one", "three", "two"]
AT_ONCE: Final = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10"}  # Spark's default is 3 seconds


def copied(frames: Frames, new_name: Names) -> None:
    """Write texts to a topic, copy it to another one by a streaming query, and read that in a batch query."""
    topic, target = new_name("topic"), new_name("copy")
    frames.write(frames.texts(TEXTS), topic)
    assert frames.run_available(frames.read_stream(topic).select("value"), "copy", target) == [len(TEXTS)]
    assert values(frames.read(target)) == TEXTS


def attempts(frames: Frames, new_name: Names) -> dict[str, Callable[[], Any]]:
    """Writing, reading and a streaming query, each of which may fail, by name."""
    topic = new_name("refused")
    return {
        "write": lambda: frames.write(frames.texts(TEXTS), topic),
        "read": lambda: frames.read(topic, **AT_ONCE).count(),
        "stream": lambda: frames.run_available(frames.read_stream(topic, **AT_ONCE), "refused"),
    }
