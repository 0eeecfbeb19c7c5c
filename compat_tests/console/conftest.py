"""A browser, a console as a process, and a page that must not report an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import pytest

from compat_tests.needs import need
from harness.console.axe import why_no_axe
from harness.console.browser import browser, why_no_chromium
from harness.processes.brokers import Broker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CLUSTER = "test"
PATIENCE_MS = 120_000
"""For what takes a moment: a busy machine may take a hundred times as long."""


class Console(NamedTuple):
    """A running console of one cluster. ``url`` has its token."""

    url: str

    @property
    def base(self) -> str:
        """The address without the token."""
        return self.url.partition("?")[0]

    def place(self, path: str) -> str:
        """The address of a page, once the browser has the cookie."""
        return f"{self.base}#/{CLUSTER}/{path}"

    def topic(self, name: str, tab: str) -> str:
        """The address of a tab of a topic."""
        return self.place(f"topics/{quote(name)}?tab={tab}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a module."""
    need(why_no_chromium())
    need(why_no_axe())
    with browser() as started:
        yield started


@contextmanager
def running_console(home: Path, bootstrap: str, *options: str) -> Iterator[Console]:
    """A console of a cluster, which it may change."""
    words = ["--bootstrap-server", f"{CLUSTER}={bootstrap}", "--allow-changes"]
    with console_process(home, *words, *options) as url:
        yield Console(url)


@contextmanager
def console_process(home: Path, *options: str) -> Iterator[str]:
    """The URL of a console with these options."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KWIRE_")}
    words = ["--listen", "127.0.0.1:0", "--timeout", str(PATIENCE_MS // 1000), *options]
    command = [sys.executable, "-m", "kwire", "console", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**environment, "HOME": str(home)}
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("kwire console ready url="), line
        try:
            yield line.strip().partition("url=")[2]
        finally:
            process.terminate()


@pytest.fixture
def console(broker: Broker, tmp_path: Path) -> Iterator[Console]:
    """A console of the broker under test."""
    with running_console(tmp_path, broker.bootstrap) as started:
        yield started


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page; errors in its scripts and violations of its policy fail the test."""
    faults: list[str] = []
    context = chromium.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    made = context.new_page()
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("dialog", lambda dialog: faults.append(dialog.message))
    made.on("console", lambda each: faults.append(each.text) if "Content Security Policy" in each.text else None)
    yield made
    print(made.url, made.locator("body").inner_text(), sep="\n")  # pytest shows it when the test has failed
    context.close()
    assert faults == []
