"""Fixtures of the tests of metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.metrics.otlp_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
