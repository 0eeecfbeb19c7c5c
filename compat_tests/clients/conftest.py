"""The `driver` fixture of the client tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from compat_tests.clients.drivers import Driver, make_driver
from compat_tests.needs import need
from harness.java_runner import JavaRunner


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Callable[[str], Driver]:
    """``driver("confluent")``; skips the test by name without that client (on CI: fails it)."""

    def get(name: str) -> Driver:
        if name == "kcat":
            need(None if shutil.which("kcat") else "needs kcat on PATH, not found")
        runner: JavaRunner = request.getfixturevalue("java") if name == "java" else JavaRunner()
        return make_driver(name, runner)

    return get
