"""No log: what simulated brokers complain about is daily work here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from campaigns.seeds import silence
from kwire.base import logging


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    silence()
    yield
    logging.configure(level="INFO")
