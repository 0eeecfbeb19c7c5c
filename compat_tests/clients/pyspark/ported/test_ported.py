"""Which of Spark's tests have a case, and which have none."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.pyspark.ported.support.originals import LEFT_OUT, SUITES, UNRECORDED, recorded

pytestmark = pytest.mark.quick

LEAST = 150


def ported() -> Iterator[tuple[str, str]]:
    """The suite and the name of each test of Spark that a case of this package names."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, function in vars(module).items():
            if name.startswith("test_") and function.__module__ == module.__name__:
                for mark in marks(function):
                    suite, *names = mark.args
                    yield from ((suite, each) for each in names)


def marks(function: object) -> Iterator[pytest.Mark]:
    """The markers `original` of a test and of its parameters."""
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "original":
            yield mark
        elif mark.name == "parametrize":
            for values in mark.args[1]:
                yield from (own for own in getattr(values, "marks", ()) if own.name == "original")


def test_each_test_of_these_suites_is_ported_or_left_out_for_a_reason() -> None:
    there = {(suite, test) for suite in SUITES for _, test in recorded(suite)}
    found = {*ported()}
    assert found - there == UNRECORDED, "names that Spark does not have"
    assert LEFT_OUT.keys() - there == set()
    assert found & LEFT_OUT.keys() == set()
    assert there - found - LEFT_OUT.keys() == set(), "neither ported nor left out"
    assert all(LEFT_OUT.values())


def test_so_many_are_ported() -> None:
    found = {*ported()}
    runs = Counter(suite for suite in SUITES for _, test in recorded(suite) if (suite, test) in found)
    print(f"{len(found)} tests of Spark are ported, which Spark runs {runs.total()} times: {dict(runs)}")
    assert len(found) >= LEAST
