"""Debian's Chromium, driven by Playwright: its packages are unpacked into the cache, not installed.

What is missing of the packages that Chromium depends on is unpacked beside it; those that are installed are used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.downloads import downloaded, why_not_unpacked
from harness.kafka_jars import cache_root

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER: Final = "debian-chromium"
PACKAGES: Final = ("chromium", "fonts-dejavu-core")


@cache
def why_no_chromium() -> str | None:
    """What is missing, by name; None if Chromium is there."""
    if shutil.which("chromium") is not None or _unpacked().exists():
        return None
    return why_not_unpacked(cache_root() / FOLDER, "chromium", _missing)


def _unpacked() -> Path:
    return cache_root() / FOLDER / "usr/lib/chromium/chromium"


def _missing() -> list[str]:
    """Chromium and what it needs of the packages that are not installed, by name."""
    command = ["apt-get", "-qq", "-y", "--no-install-recommends", "--print-uris", "install", *PACKAGES]
    lines = downloaded("chromium's dependencies", command).splitlines()
    return [line.split()[1].partition("_")[0] for line in lines if line.startswith("'")]


@contextmanager
def browser() -> Iterator[Browser]:
    """A running Chromium without windows."""
    from playwright.sync_api import sync_playwright

    root = cache_root() / FOLDER
    libraries = root / "usr/lib/x86_64-linux-gnu"
    installed = shutil.which("chromium")
    environment: dict[str, str | float | bool] = dict(os.environ)
    if installed is None:
        environment["LD_LIBRARY_PATH"] = f"{libraries}:{libraries / 'pulseaudio'}"
    program = installed or str(_unpacked())
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            env=environment,
        )
        try:
            yield started
        finally:
            started.close()
