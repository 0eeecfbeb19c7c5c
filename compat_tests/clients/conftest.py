"""Fixtures of the client tests: a driver by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from compat_tests.clients.drivers import Driver, make_driver
from compat_tests.conftest import need
from harness.java_runner import JavaRunner


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Callable[[str], Driver]:
    """``driver("confluent")``; a client that this machine lacks skips the test by name (on CI: fails it)."""

    def get(name: str) -> Driver:
        if name == "kcat":
            need(None if shutil.which("kcat") else "needs kcat on PATH, not found")
        runner: JavaRunner = request.getfixturevalue("java") if name == "java" else JavaRunner()
        return make_driver(name, runner)

    return get
