"""`tools.spark_releases`: which releases there are, and what the table says of a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.spark_releases.__main__ import Failed, Tried, releases_in, run, why

LISTED = """\
pyspark (4.10.0)
Available versions: 4.10.0, 4.2.1, 4.0.0, 3.5.9, 2.2.0.post0
  INSTALLED: 4.0.0
"""
IVY = """\
:: problems summary ::
\t\tmodule not found: org.apache.spark#spark-token-provider-kafka-0-10_2.13;4.0.1
\t\t:: org.apache.spark#spark-token-provider-kafka-0-10_2.13;4.0.1: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency]
"""
PYTHON = """\
Traceback (most recent call last):
  File "queries.py", line 9, in <module>
AssertionError: batch query with format('kafka')
26/11/24 11:57:27 INFO ShutdownHookManager: Shutdown hook called
"""


def test_releases_from_4_0_0_on_in_the_order_of_their_numbers() -> None:
    assert releases_in(LISTED) == ["4.0.0", "4.2.1", "4.10.0"]
    assert releases_in("") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (IVY, "org.apache.spark#spark-token-provider-kafka-0-10_2.13;4.0.1: not found"),
        (PYTHON, "AssertionError: batch query with format('kafka')"),
        ("killed | by\n", "killed / by"),
        ("", "no output"),
    ],
)
def test_a_failure_is_one_cell_that_names_its_cause(text: str, line: str) -> None:
    assert why(text) == line


def test_a_row_has_the_connector_of_its_release() -> None:
    assert Tried("4.1.4", "3.12.1", "works", 61.4).row() == "| 4.1.4 | 3.12.1 | 4.1.1 | works | 61 s |"


def test_a_command_that_fails_or_hangs_ends_with_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "of-this-tree")
    program = "import os; raise ValueError(os.environ.get('PYTHONPATH'))"
    with pytest.raises(Failed, match=r"^ValueError: None$"):
        run([sys.executable, "-c", program], tmp_path / "log", 60, tmp_path)
    with pytest.raises(Failed, match="not within 0 s"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "hung", 0.1, tmp_path)
    run([sys.executable, "-c", ""], tmp_path / "fine", 60, tmp_path)
