"""Measure what an open console costs a producer of 1,000 records/s on the same two cores.

    nice -n 5 .venv/bin/python -m tools.console.beside_producer
    .venv/bin/python -m tools.console.beside_producer --broker kafka --rounds 3

In each round `tools.console.steady_producer` writes to the topic that the console shows,

- ``closed``: with no page open;
- ``apart``: with all pages open, in a browser that takes only the processor time that nothing else wants. This is what
  the console and its requests cost, as if the browser ran on another machine, as people's browsers do. Linux must not
  group processes by session meanwhile (autogroup): only root can switch that off, and has it switched on again at the
  end. Otherwise the browser keeps the broker waiting for up to a timer tick, 4 ms;
- ``beside``: with all pages open, in a browser that competes with the broker and the producer for the same cores.

It prints a line of JSON for each broker: the p99 of each run in milliseconds, by how much the medians differ from
``closed``, and of each run's seconds the share that broker, console and browser were busy, and the requests of pages.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.console.browser import browser, why_no_chromium
from harness.kafka_jars import why_no_java
from harness.paths import ROOT
from harness.processes.brokers import KINDS, Broker, make_broker
from harness.processes.process_usage import cpu_s, family
from tools.console.processes import Started, console_of, run

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Request

TOPIC: Final = "steady"
RATE: Final = 1000
PAGES: Final = ("topics", "groups", "brokers", "brokers/1", "transactions", "access", "clusters")
TABS: Final = ("messages", "search", "tail", "partitions", "groups", "configs", "producers")
WAYS: Final = ("closed", "apart", "beside")


class Open:
    """A console that is open on all pages. ``requests``: how many its pages have made."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.requests = 0
        context.on("request", self._count)
        context.set_default_timeout(300_000)
        self._page = context.new_page()
        self._page.goto(url)  # the cookie, for all
        base = url.partition("?")[0]
        for path in [*PAGES, *(f"topics/{TOPIC}?tab={tab}" for tab in TABS)]:
            page = context.new_page()
            page.goto(f"{base}#/test/{path}")
            page.get_by_role("heading", level=1).wait_for()
        for page in context.pages:
            page.locator("main:not(:has-text('Loading…'))").wait_for()

    def _count(self, request: Request) -> None:
        self.requests += "/api/" in request.url

    def seen(self) -> int:
        """The requests so far, with those of which the browser has only just told."""
        self._page.evaluate("0")
        return self.requests


@contextmanager
def without_groups() -> Iterator[None]:
    """Processes that start meanwhile are scheduled one by one, not by session. Nothing, if this is not allowed."""
    setting = Path("/proc/sys/kernel/sched_autogroup_enabled")
    try:
        before = setting.read_text()
        setting.write_text("0")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        setting.write_text(before)


@contextmanager
def opened(way: str, url: str) -> Iterator[Open | None]:
    """All pages, or none."""
    if way == "closed":
        yield None
        return
    with browser(idle=way == "apart") as chromium:
        yield Open(chromium.new_context(viewport={"width": 1200, "height": 800}), url)


def chromium_s() -> float:
    """The processor time of the browser that this process has started."""
    return sum(cpu_s(pid) for pid in family(os.getpid()) if _name(pid).startswith("chrom"))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def one(broker: Broker, console: Started, shown: Open | None, records: int) -> dict[str, float]:
    """A run of the producer: its p99 and what else was busy."""
    before = (time.monotonic(), cpu_s(broker.pid), cpu_s(console.pid), chromium_s(), shown.seen() if shown else 0)
    command = [sys.executable, "-m", "tools.console.steady_producer", broker.bootstrap, TOPIC, str(records), str(RATE)]
    latency = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    after = (time.monotonic(), cpu_s(broker.pid), cpu_s(console.pid), chromium_s(), shown.seen() if shown else 0)
    took_s, *spent = (now - then for then, now in zip(before, after, strict=True))
    shares = dict(zip(("broker", "console", "browser", "requests/s"), (each / took_s for each in spent), strict=True))
    return {"p50 ms": latency["p50"], "p99 ms": latency["p99"]} | {
        name: round(each, 3) for name, each in shares.items()
    }


def measure(kind: str, count: int, records: int, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """Measure with a broker of a kind, in turns."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="kwire-console-") as folder:
        broker = make_broker(kind, Path(folder))
        broker.start()
        try:
            run(broker.bootstrap, "topic", "create", TOPIC)
            with console_of(broker.bootstrap) as console:
                with opened("closed", console.found):
                    one(broker, console, None, records)  # warms up
                for number in range(count):
                    for way in [*ways[number % len(ways) :], *ways[: number % len(ways)]]:
                        with opened(way, console.found) as shown:
                            found[way].append(one(broker, console, shown, records))
        finally:
            broker.kill()
    return summary(found)


def summary(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """What is printed of all runs."""
    middle = {
        way: {name: statistics.median(run[name] for run in runs) for name in runs[0]} for way, runs in found.items()
    }
    closed = middle["closed"]["p99 ms"]
    return {
        "p99 ms": {way: [run["p99 ms"] for run in runs] for way, runs in found.items()},
        "changed by %": {way: round((each["p99 ms"] / closed - 1) * 100, 1) for way, each in middle.items()},
        "medians": middle,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=KINDS, action="append", default=[], help="default: kwire")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=15 * RATE, help="of each run")
    options = parser.parse_args(arguments)
    kinds = options.broker or ["kwire"]
    if (reason := why_no_chromium() or ("kafka" in kinds and why_no_java()) or None) is not None:
        print(reason)
        return 1
    for kind in kinds:
        with without_groups():
            print(kind, json.dumps(measure(kind, options.rounds, options.records)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
