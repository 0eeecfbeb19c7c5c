"""The `driver` fixture of the client tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compat_tests.clients.drivers import Driver, make_driver
from compat_tests.needs import need
from harness.java_runner import JavaRunner


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Callable[..., Driver]:
    """``driver("confluent", security=None)``; skips the test by name without that client (on CI: fails it)."""

    def get(name: str, security: Mapping[str, Any] | None = None) -> Driver:
        if name == "kcat":
            need(None if shutil.which("kcat") else "needs kcat on PATH, not found")
        runner: JavaRunner = request.getfixturevalue("java") if name == "java" else JavaRunner()
        return make_driver(name, runner, security)

    return get
