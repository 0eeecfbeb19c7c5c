"""Make the pictures of the console in ``docs/images``, of a broker with an example in it.

.venv/bin/python -m tools.console.screenshots
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from harness.console.browser import browser, why_no_chromium
from harness.paths import ROOT
from tools.console.processes import KWIRE, started

FOLDER: Final = ROOT / "docs" / "images"
COUNTRIES: Final = ("NO", "DE", "JP", "BR")
PICTURES: Final = {
    "console-topics": "topics",
    "console-messages": "topics/orders?tab=messages",
    "console-search": "topics/orders?tab=search&value=user-7",
    "console-partitions": "topics/orders?tab=partitions",
    "console-group": "groups/billing",
}


def fill(bootstrap: str) -> None:
    """Topics, messages, and a group that is behind."""

    def run(*words: str, stdin: str = "") -> None:
        command = [*KWIRE, *words, "-b", bootstrap]
        subprocess.run(command, input=stdin.encode(), stdout=subprocess.DEVNULL, check=True)

    run("topic", "create", "orders", "payments", "shipments", "--partitions", "3")
    lines = []
    for number in range(500):
        user = {"name": f"user-{number % 40}", "country": COUNTRIES[number % 4]}
        lines.append(
            json.dumps({"key": f"order-{number}", "value": {"id": number, "user": user, "amount": number * 7}})
        )
    run("produce", "orders", "--input", "jsonl", stdin="\n".join(lines))
    run("consume", "orders", "--group", "billing", "--max-messages", "320")


def main() -> int:
    """Make them."""
    if (reason := why_no_chromium()) is not None:
        print(reason)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-pictures-")))
        words = ["start", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
        bootstrap = stack.enter_context(started(words, r"bootstrap=(\S+)"))
        fill(bootstrap)
        words = ["console", "--listen", "127.0.0.1:0", "--bootstrap-server", f"local={bootstrap}"]
        url = stack.enter_context(started(words, r"url=(\S+)"))
        page = stack.enter_context(browser()).new_page(viewport={"width": 1200, "height": 640})
        page.goto(url)
        page.get_by_text("ok", exact=True).wait_for()
        for name, path in PICTURES.items():
            page.goto(f"{url.partition('?')[0]}#/local/{path}")
            page.get_by_role("heading", level=1).wait_for()
            if "search" in name:
                page.get_by_role("button", name="Search", exact=True).click()
                page.get_by_text("all messages seen").wait_for()
            page.locator("main:not(:has-text('Loading…'))").wait_for()
            page.get_by_text("ok", exact=True).wait_for()
            page.wait_for_timeout(16_000 if "group" in name else 1000)  # samples of the lag
            page.screenshot(path=FOLDER / f"{name}.png")
    print(f"{len(PICTURES)} pictures in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
