"""Measure the console with a broker of kwire: searches through a large topic, and the page of a fast one.

    nice -n 5 .venv/bin/python -m tools.console.measure
    .venv/bin/python -m tools.console.measure --messages 1000000 --only search

``search``: through all messages of a topic, to the end, and how fast it ends when it is stopped.
``tail``: frames of the page while a producer writes; a frame that comes late is a page that has frozen.

The first page of a large cluster is measured by `tools.console.first_page`, and what the console costs producers by
`tools.console.beside_producer`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.console.browser import browser, why_no_chromium
from tools.console.processes import KWIRE, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

BATCH: Final = 1_000_000
TAIL_S: Final = 20
FRAMES: Final = """(seconds) => new Promise((done) => {
    const gaps = [];
    let last = performance.now();
    const end = last + seconds * 1000;
    const frame = (now) => {
        gaps.push(now - last);
        last = now;
        if (now < end) requestAnimationFrame(frame); else done(gaps.slice(1));
    };
    requestAnimationFrame(frame);
})"""


class Measurement:
    """A broker with its console, and a browser."""

    def __init__(self, bootstrap: str, url: str, chromium: Browser, messages: int) -> None:
        self.bootstrap = bootstrap
        self.url = url
        self.messages = messages
        self._chromium = chromium

    def run(self, *words: str, stdin: bytes = b"") -> str:
        """What a command of kwire prints."""
        command = [*KWIRE, *words, "-b", self.bootstrap]
        return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode()

    def context(self) -> BrowserContext:
        """A browser that the console lets in."""
        context = self._chromium.new_context(viewport={"width": 1200, "height": 800})
        page = context.new_page()
        page.goto(self.url)
        page.close()
        return context

    def place(self, path: str) -> str:
        """The address of a page."""
        return f"{self.url.partition('?')[0]}#/test/{path}"


def search(measurement: Measurement) -> dict[str, Any]:
    """Messages a second, of searches that look at all messages of a partition."""
    measurement.run("topic", "create", "large")
    lines = b"".join(
        b'{"id": %d, "user": {"name": "user-%d"}, "amount": %d, "text": "some more words to fill it up"}\n'
        % (n, n % 1000, n % 977)
        for n in range(min(measurement.messages, BATCH))
    )
    with tempfile.NamedTemporaryFile() as file:
        file.write(lines)
        file.flush()
        repeat = str(max(measurement.messages // BATCH, 1))
        measurement.run("produce", "large", file.name, "--repeat", repeat)
    context = measurement.context()
    page = context.new_page()
    found: dict[str, Any] = {"messages": measurement.messages}
    searches = {
        "value": "value=no+such+words",
        "regular expression": "regex=1&value=user-9%2Bx",
        "json": "json=id%3D-1",
    }
    for name, query in searches.items():
        found[name] = _search(page, measurement, query)
    page.goto(measurement.place("topics/large?tab=search"))
    page.get_by_label("JSON PATH=VALUE").fill("id=-1")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("a second").wait_for()
    began_s = time.monotonic()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("cancelled").wait_for()
    found["stopped after s"] = round(time.monotonic() - began_s, 3)
    context.close()
    return found


def _search(page: Page, measurement: Measurement, query: str) -> dict[str, Any]:
    """The event ``done`` of a search, as the page's own script would hear it."""
    page.goto(measurement.place("clusters"))
    script = """(url) => new Promise((done) => {
        const source = new EventSource(url);
        for (const name of ["done", "failed"]) {
            source.addEventListener(name, (event) => { source.close(); done(JSON.parse(event.data)); });
        }
    })"""
    done = page.evaluate(script, f"/api/topics/large/search?{query}&seconds=600")
    rate = round(done["scanned"] / done["seconds"])
    return {"reason": done["reason"], "scanned": done["scanned"], "seconds": done["seconds"], "messages/s": rate}


def tail(measurement: Measurement) -> dict[str, Any]:
    """The times between the frames of the page ``Live`` while 50,000 records/s come."""
    measurement.run("topic", "create", "fast")
    context = measurement.context()
    page = context.new_page()
    page.goto(measurement.place("topics/fast?tab=tail"))
    page.get_by_text("Waiting for messages").wait_for()
    words = ["bench", "produce", "fast", "--num-records", str(50_000 * (TAIL_S + 10)), "--rate", "50000"]
    with subprocess.Popen([*KWIRE, *words, "-b", measurement.bootstrap], stdout=subprocess.DEVNULL) as producer:
        page.get_by_role("button", name="Show offset").first.wait_for()
        page.wait_for_timeout(3000)
        gaps = sorted(page.evaluate(FRAMES, TAIL_S))
        rate = page.get_by_text("messages a second").inner_text()
        producer.terminate()
    context.close()
    return {
        "frames": len(gaps),
        "p50 ms": round(gaps[len(gaps) // 2], 1),
        "p99 ms": round(gaps[len(gaps) * 99 // 100], 1),
        "longest ms": round(gaps[-1], 1),
        "shown": rate,
    }


PARTS: Final[dict[str, Callable[[Measurement], dict[str, Any]]]] = {
    "search": search,
    "tail": tail,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000, help="of the search")
    parser.add_argument("--only", choices=PARTS, action="append", default=[])
    options = parser.parse_args(arguments)
    if (reason := why_no_chromium()) is not None:
        print(reason)
        return 1
    for name in options.only or PARTS:
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-console-")))
            words = ["start", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
            bootstrap = stack.enter_context(started(words, r"bootstrap=(\S+)"))
            words = ["console", "--listen", "127.0.0.1:0", "--bootstrap-server", f"test={bootstrap}"]
            url = stack.enter_context(started(words, r"url=(\S+)"))
            measurement = Measurement(bootstrap, url, stack.enter_context(browser()), options.messages)
            print(name, json.dumps(PARTS[name](measurement)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
