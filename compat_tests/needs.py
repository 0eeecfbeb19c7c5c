"""What tests do on a machine that lacks a tool: they skip by name, and fail on CI, where everything must be there."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from compat_tests.suites.suite import CannotBuild

ON_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")


def need(reason: str | None) -> None:
    """Skip the test for a reason that names what is missing, or fail it on CI; None if nothing is missing."""
    if reason is None:
        return
    if ON_CI:
        pytest.fail(f"{reason}; on CI this may not be skipped", pytrace=False)
    pytest.skip(reason)


def need_built(build: Callable[[], object]) -> None:
    """Build another project's suite (once); `need` the tool or header that the build lacks."""
    try:
        build()
    except CannotBuild as reason:
        need(str(reason))
