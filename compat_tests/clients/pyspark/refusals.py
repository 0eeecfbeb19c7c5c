"""What a user of Spark sees of an error: the exceptions of Python and of Java, with their texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(\.\d+)*")  # identifiers, addresses and counters


def refusal(action: Callable[[], object]) -> list[tuple[str, str]]:
    """Name and text of the exception that an action ends with, and of its causes in Java, the outermost first.

    Of each text, the first line, without what differs from run to run; the last one is whole.
    """
    with pytest.raises((Py4JJavaError, PySparkException)) as raised:
        action()
    texts = [(type(raised.value).__name__, "")]
    cause = _java(raised.value)
    while cause is not None:
        text = cause.getMessage() or ""
        following = cause.getCause()
        shown = _RANDOM.sub("N", text.partition("\n")[0]) if following is not None else text
        texts.append((cause.getClass().getName(), shown))
        cause = following
    return texts


def _java(error: BaseException) -> Any:
    """The Java exception that one of Python stands for."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
