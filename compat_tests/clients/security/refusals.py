"""How each client reports that it could not connect: the error's name and, where the broker wrote it, its text.

A client that tries again is stopped at its first error. TLS errors are told by their name alone: their texts are those
of the TLS library.
"""

from __future__ import annotations

import gc
import logging
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from compat_tests.clients.drivers import Sent, make_driver
from harness.java_runner import JavaRunner
from harness.waiting import PATIENCE_S

_RECORD = [Sent(0, b"key", b"value")]
_DECORATION = re.compile(r"^\S+/bootstrap: | \(after \d+ms in state \w+\)$")
_KCAT_ERROR = re.compile(r"^% ERROR: (Local: [^:]+): (.*)$", re.MULTILINE)
_JAVA_ERROR = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+): ([^\n]*)")


def refusal(client: str, bootstrap: str, options: Mapping[str, Any], runner: JavaRunner) -> str:
    """``NAME: TEXT`` of the first error of a client that produces a record. AssertionError if it succeeds."""
    readers: dict[str, Callable[[], str]] = {
        "kafka-python": lambda: _logged(
            "kafka.net.manager", "Bootstrap connection", client, bootstrap, options, runner
        ),
        "aiokafka": lambda: _logged("aiokafka", "Unable connect", client, bootstrap, options, runner),
        "confluent": lambda: _confluent(bootstrap, options),
        "kcat": lambda: _kcat(bootstrap, options),
        "java": lambda: _java(bootstrap, options, runner),
    }
    return readers[client]()


class _FirstError(Exception):
    """Raised where a client writes to its log why a connection failed, which it would otherwise try again."""


class _Listener(logging.Handler):
    """Keeps the exception in the first message that begins so."""

    def __init__(self, start: str) -> None:
        super().__init__(logging.WARNING)
        self._start = start
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        if self.said or not str(record.msg).startswith(self._start) or not isinstance(record.args, tuple):
            return
        error = next(each for each in record.args if isinstance(each, BaseException))
        self.said = f"{type(error).__name__}: {error}"
        raise _FirstError


def _logged(
    logger: str, start: str, client: str, bootstrap: str, options: Mapping[str, Any], runner: JavaRunner
) -> str:
    driver = make_driver(client, runner, options)
    listener = _Listener(start)
    logging.getLogger(logger).addHandler(listener)
    try:
        driver.produce(bootstrap, "refused", _RECORD)
    except _FirstError:
        return listener.said
    finally:
        logging.getLogger(logger).removeHandler(listener)
        gc.collect()  # what the client has left open, while the test ignores warnings of that
    raise AssertionError("the record was produced")


def _confluent(bootstrap: str, options: Mapping[str, Any]) -> str:
    from confluent_kafka import Producer

    errors: list[Any] = []
    came = threading.Event()

    def note(error: Any) -> None:
        errors.append(error)
        came.set()

    producer = Producer({"bootstrap.servers": bootstrap, **options, "log_level": 0, "error_cb": note})
    for _ in range(int(PATIENCE_S)):
        producer.poll(1)
        if came.is_set():
            return f"{errors[0].name()}: {_DECORATION.sub('', errors[0].str())}"
    raise AssertionError("no error came")


def _kcat(bootstrap: str, options: Mapping[str, Any]) -> str:
    words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", bootstrap, "-P", "-t", "refused", *words]
    done = subprocess.run(command, input=b"value", capture_output=True, timeout=PATIENCE_S, check=False)
    error = _KCAT_ERROR.search(done.stderr.decode())
    assert done.returncode != 0 and error is not None, done
    return f"{error[1]}: {_DECORATION.sub('', error[2])}"


def _java(bootstrap: str, options: Mapping[str, Any], runner: JavaRunner) -> str:
    try:
        make_driver("java", runner, options).produce(bootstrap, "refused", _RECORD)
    except AssertionError as error:
        found = _JAVA_ERROR.search(str(error))
        assert found is not None, error
        return f"{found[1]}: {found[2]}"
    raise AssertionError("the record was produced")
