"""Measure how soon the console's first page shows a large cluster, of kwire and of Apache Kafka.

    nice -n 5 .venv/bin/python -m tools.console.first_page
    .venv/bin/python -m tools.console.first_page --broker kwire --topics 100 --rounds 3

By default the cluster has 1,000 topics of 10 partitions. In each round a browser that has never seen the console opens
the URL with its token (``first``), and then the page once more in another tab (``again``). The time is that from the
beginning of the navigation to the frame in which the topics are drawn, by the browser's clock. Before each of the two,
so much time passes that the console has no answer of an earlier one: every list comes from the brokers.

It prints a line of JSON for each broker: all times in milliseconds, the greatest of each kind, and where the time goes
(medians): until the last script has come, and of ``/api/topics`` when it was asked, when its response came, its bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.console.browser import browser, why_no_chromium
from harness.kafka_jars import why_no_java
from harness.processes.brokers import KINDS, make_broker
from kwire.console.shared import FRESH_MAX_S
from tools.console.processes import console_of, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

AT_ONCE: Final = 100
"""Topics that one command creates."""
DRAWN: Final = """(() => {
    const look = () => {
        if (document.querySelector("main table a") === null) requestAnimationFrame(look);
        else requestAnimationFrame(() => { window.drawnMs = performance.now(); });
    };
    requestAnimationFrame(look);
})()"""
"""Notes the time of the frame after the one in which the first topic is in the page: by then it is on the screen."""
TIMES: Final = """() => {
    const entries = performance.getEntriesByType("resource");
    const scripts = entries.filter((each) => each.name.endsWith(".js")).map((each) => each.responseEnd);
    const topics = entries.find((each) => new URL(each.name).pathname === "/api/topics");
    return {
        drawn: window.drawnMs,
        scripts: Math.max(...scripts),
        asked: topics.startTime,
        answered: topics.responseEnd,
        bytes: topics.decodedBodySize,
    };
}"""


def create(bootstrap: str, topics: int, partitions: int) -> None:
    """Create topics, some at a time."""
    names = [f"many-{number:04}" for number in range(topics)]
    for first in range(0, topics, AT_ONCE):
        words = ["topic", "create", *names[first : first + AT_ONCE], "--partitions", str(partitions)]
        run(bootstrap, *words, "--timeout", "300")


def opened(context: BrowserContext, url: str) -> dict[str, float]:
    """The times of a page, in milliseconds since the navigation began."""
    page = context.new_page()
    page.add_init_script(DRAWN)
    page.goto(url)
    page.wait_for_function("() => window.drawnMs !== undefined")
    times: dict[str, float] = page.evaluate(TIMES)
    page.close()
    return times


def rounds(chromium: Browser, url: str, count: int, pause_s: float) -> dict[str, list[dict[str, float]]]:
    """The times of so many rounds."""
    found: dict[str, list[dict[str, float]]] = {"first": [], "again": []}
    for _ in range(count):
        context = chromium.new_context(viewport={"width": 1200, "height": 800})
        context.set_default_timeout(300_000)
        for kind, address in (("first", url), ("again", f"{url.partition('?')[0]}#/test/topics")):
            time.sleep(pause_s)
            found[kind].append(opened(context, address))
        context.close()
    return found


def summary(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """What is printed of them."""
    return {
        kind: {
            "drawn ms": [round(each["drawn"]) for each in times],
            "greatest ms": round(max(each["drawn"] for each in times)),
            "medians": {name: round(statistics.median(each[name] for each in times)) for name in times[0]},
        }
        for kind, times in found.items()
    }


def measure(kind: str, topics: int, partitions: int, count: int, pause_s: float) -> dict[str, Any]:
    """Measure with a broker of a kind."""
    with tempfile.TemporaryDirectory(prefix="kwire-console-") as folder:
        broker = make_broker(kind, Path(folder))
        broker.start()
        try:
            create(broker.bootstrap, topics, partitions)
            with console_of(broker.bootstrap) as console, browser() as chromium:
                return summary(rounds(chromium, console.found, count, pause_s))
        finally:
            broker.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=KINDS, action="append", default=[], help="default: both")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=FRESH_MAX_S + 1, help="seconds before each page")
    options = parser.parse_args(arguments)
    kinds = options.broker or KINDS
    if (reason := why_no_chromium() or ("kafka" in kinds and why_no_java()) or None) is not None:
        print(reason)
        return 1
    for kind in kinds:
        found = measure(kind, options.topics, options.partitions, options.rounds, options.pause)
        print(kind, json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
