"""Log lines and the levels of loggers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kwire.base import logging


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logging.configure(stream=stream, as_json=True)
    yield stream
    for name in logging.levels():
        logging.unset_level(name)
    logging.configure()


def test_without_a_terminal_a_line_is_a_json_object(stream: io.StringIO) -> None:
    logging.configure(stream=stream)
    logging.get_logger("t.json").info("topic created", topic="a\nb", partitions=3)
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "topic created", "level": "INFO", "logger": "t.json", "topic": "a\nb", "partitions": 3}
    assert stream.getvalue().count("\n") == 1


def test_a_field_cannot_begin_a_line_of_its_own_for_people(stream: io.StringIO) -> None:
    logging.configure(stream=stream, as_json=False)
    logging.get_logger("t.console").warning("odd client", client_id="x\n2026 [ERROR] forged\x1b[31m")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_an_exception_is_logged_with_its_traceback(stream: io.StringIO) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logging.get_logger("t.exception").exception("failed")
    assert "ValueError: boom" in json.loads(stream.getvalue())["exception"]


def test_levels_are_inherited_and_switched_while_running(stream: io.StringIO) -> None:
    parent, child = logging.get_logger("t.tree"), logging.get_logger("t.tree.leaf")
    child.debug("not yet")
    logging.set_level("t.tree", "DEBUG")
    child.debug("below its parent")
    assert logging.get_logger("t.tree.later").level == parent.level
    logging.set_level("t.tree.leaf", "ERROR")
    child.warning("silenced")
    logging.unset_level("t.tree.leaf")
    logging.unset_level("t.tree")
    child.debug("root again")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["below its parent"]


def test_levels_are_listed_by_kafkas_names(stream: io.StringIO) -> None:
    logging.get_logger("t.listed")
    logging.set_level("t", "TRACE")
    assert logging.levels()["t.listed"] == "TRACE"
    assert logging.levels()["root"] == "INFO"
    assert logging.is_known("t")
    assert not logging.is_known("no.such")
    with pytest.raises(KeyError):
        logging.set_level("t", "VERBOSE")


def test_a_closed_stream_does_not_end_the_broker(stream: io.StringIO) -> None:
    logging.get_logger("t.closed").info("one")
    stream.close()
    logging.get_logger("t.closed").info("two")


def test_neither_structlog_nor_rich_is_loaded_before_the_first_line() -> None:
    code = (
        "import sys; from kwire.base.logging import get_logger; log = get_logger('x'); log.debug('off');"
        "assert 'structlog' not in sys.modules; log.info('on'); assert 'structlog' in sys.modules;"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
