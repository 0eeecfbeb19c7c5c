"""No test of a log leaves files open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log.log_tools import release_logs


@pytest.fixture(autouse=True)
def _released_logs() -> Iterator[None]:
    yield
    release_logs()
