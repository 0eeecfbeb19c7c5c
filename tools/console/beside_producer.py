"""Measure what an open console costs a producer of 1,000 records/s on the same two cores.

    nice -n 5 .venv/bin/python -m tools.console.beside_producer
    .venv/bin/python -m tools.console.beside_producer --broker kafka --rounds 3

In each round `tools.console.steady_producer` writes to the topic that the console shows,

- ``closed``: with no page open;
- ``apart``: with all pages open in a browser elsewhere, as people's browsers are. The requests that the pages made in
  a run before are made again at the same times, and their streams of events are read, by `tools.console.replay`, which
  takes only processor time that nothing else wants. Linux must not group processes by session meanwhile (autogroup):
  only root can switch that off, and has it switched on again at the end. Otherwise it keeps the broker waiting for up
  to a timer tick, 4 ms;
- ``beside``: with all pages open, in a browser that competes with the broker and the producer for the same cores.

A console that has to compete for a processor does not yield for a while (`kwire.base.processes.priority`); each run
begins when it yields again, so that none depends on the one before.

It prints a line of JSON for each broker: the p99 of each run in milliseconds, by how much the medians differ from
``closed``, and of each run's seconds the share that broker, console and browser (or what stands for it) were busy, and
the requests of pages.
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
from harness.inspection.process_usage import cpu_s, family
from harness.kafka_jars import why_no_java
from harness.paths import ROOT
from harness.processes.brokers import KINDS, Broker, make_broker, wait_until
from harness.processor.scheduling import without_groups
from kwire.base.processes.priority import PAUSE_MAX_S, may_idle
from tools.console.processes import Started, console_of, run
from tools.console.replay import Recording, dumped

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Request

TOPIC: Final = "steady"
RATE: Final = 1000
PAGES: Final = ("topics", "groups", "brokers", "brokers/1", "transactions", "access", "clusters")
TABS: Final = ("messages", "search", "tail", "partitions", "groups", "configs", "producers")
WAYS: Final = ("closed", "apart", "beside")
STREAM: Final = "eventsource"
POLL_MAX_S: Final = 120.0
"""Open pages ask every five seconds; a busy machine may take much longer."""


class Open:
    """A console that is open on all pages."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self._asked: list[Request] = []
        self._ended: set[Request] = set()
        context.on("request", self._add)
        context.on("requestfinished", self._end)
        context.on("requestfailed", self._end)
        context.set_default_timeout(300_000)
        self._page = context.new_page()
        self._page.goto(url)  # the cookie, for all
        self._base = url.partition("?")[0]
        for path in [*PAGES, *(f"topics/{TOPIC}?tab={tab}" for tab in TABS)]:
            page = context.new_page()
            page.goto(f"{self._base}#/test/{path}")
            page.get_by_role("heading", level=1).wait_for()
        for page in context.pages:
            page.locator("main:not(:has-text('Loading…'))").wait_for()

    def _add(self, request: Request) -> None:
        if "/api/" in request.url:
            self._asked.append(request)

    def _end(self, request: Request) -> None:
        self._ended.add(request)

    @property
    def requests(self) -> int:
        """How many its pages have made."""
        return len(self._asked)

    def seen(self) -> int:
        """The requests so far, with those of which the browser has only just told."""
        self._page.evaluate("0")
        return self.requests

    def streams(self) -> list[str]:
        """The paths of the streams of events that go on."""
        self.seen()
        return [self._path(each) for each in self._asked if each.resource_type == STREAM and each not in self._ended]

    def recording(self, since_s: float, until_s: float, streams: Sequence[str]) -> Recording:
        """The requests in a time, in seconds since the epoch, and streams that went on before."""
        self.seen()
        cookie = "; ".join(f"{each['name']}={each['value']}" for each in self._page.context.cookies())
        found = Recording(self._base, cookie, until_s - since_s, [(0.0, path, True) for path in streams])
        for each in self._asked:
            at_s = each.timing["startTime"] / 1000
            if since_s <= at_s < until_s and each.method == "GET":
                found.requests.append((at_s - since_s, self._path(each), each.resource_type == STREAM))
        return found

    def _path(self, request: Request) -> str:
        return "/" + request.url.removeprefix(self._base)

    def cpu_s(self) -> float:
        """The processor time of the browser: of its first process, which has all others among its descendants."""
        return max((cpu_s(pid) for pid in family(os.getpid()) if _name(pid).startswith("chrom")), default=0.0)

    def end(self) -> None:
        """Nothing: whoever opened the browser closes it."""


class Replayed:
    """The requests of a recording, made by a process of its own. ``requests``: how many it has made in the end."""

    def __init__(self, recording: Recording) -> None:
        self.requests = 0
        command = ["chrt", "--idle", "0", sys.executable, "-m", "tools.console.replay"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(dumped(recording))
        self._process.stdin.close()
        self._told = self._process.stdout

    def seen(self) -> int:
        """The requests so far: none, or all."""
        return self.requests

    def cpu_s(self) -> float:
        """The processor time of the process."""
        return cpu_s(self._process.pid)

    def end(self) -> None:
        """Wait for the last one. `RuntimeError` if one was refused."""
        with self._process as process:
            told = self._told.read()
        if process.returncode != 0:
            raise RuntimeError("requests of the console were refused")
        self.requests = json.loads(told)["responses"]


@contextmanager
def opened(url: str) -> Iterator[Open]:
    """All pages in a browser."""
    with browser() as chromium:
        yield Open(chromium.new_context(viewport={"width": 1200, "height": 800}), url)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def await_yielding(console: Started) -> None:
    """Wait until the console runs only when nothing else wants to, if it may do that at all."""
    if may_idle():
        idle = os.SCHED_IDLE
        wait_until(lambda: os.sched_getscheduler(console.pid) == idle, PAUSE_MAX_S + 5, "the console to yield")


def one(broker: Broker, console: Started, shown: Open | Replayed | None, records: int) -> dict[str, float]:
    """A run of the producer: its p99 and what else was busy."""

    def spent() -> tuple[float, ...]:
        return (time.monotonic(), cpu_s(broker.pid), cpu_s(console.pid), shown.cpu_s() if shown else 0)

    before, seen = spent(), shown.seen() if shown else 0
    command = [sys.executable, "-m", "tools.console.steady_producer", broker.bootstrap, TOPIC, str(records), str(RATE)]
    latency = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    took_s, *busy_s = (now - then for then, now in zip(before, spent(), strict=True))
    if shown:
        shown.end()
    busy_s.append(shown.seen() - seen if shown else 0)
    shares = dict(zip(("broker", "console", "browser", "requests/s"), (each / took_s for each in busy_s), strict=True))
    return {"p50 ms": latency["p50"], "p99 ms": latency["p99"]} | {
        name: round(each, 3) for name, each in shares.items()
    }


def recorded(broker: Broker, console: Started, records: int) -> Recording:
    """What the pages ask for during a run, which also warms everything up. A short run is over before they ask for
    anything: the recording goes on until they do."""
    with opened(console.found) as shown:
        streams, began_s = shown.streams(), time.time()
        one(broker, console, shown, records)

        def found() -> Recording:
            return shown.recording(began_s, time.time(), streams)

        wait_until(lambda: any(not stream for _, _, stream in found().requests), POLL_MAX_S, "the pages to ask again")
        return found()


def measure(kind: str, count: int, records: int) -> dict[str, Any]:
    """Measure with a broker of a kind, in turns."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="kwire-console-") as folder:
        broker = make_broker(kind, Path(folder))
        broker.start()
        try:
            run(broker.bootstrap, "topic", "create", TOPIC)
            with console_of(broker.bootstrap) as console:
                recording = recorded(broker, console, records)
                for number in range(count):
                    for way in [*WAYS[number % len(WAYS) :], *WAYS[: number % len(WAYS)]]:
                        await_yielding(console)
                        if way == "beside":
                            with opened(console.found) as shown:
                                found[way].append(one(broker, console, shown, records))
                        else:
                            replayed = Replayed(recording) if way == "apart" else None
                            found[way].append(one(broker, console, replayed, records))
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
