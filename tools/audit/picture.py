"""Make the picture of a report in ``docs/images``: two topics of which one is a copy with planted faults.

.venv/bin/python -m tools.audit.picture
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from harness.auditing.planted_faults import Planted
from harness.console.browser import browser, why_no_chromium
from harness.paths import ROOT
from kwire.cli import main as kwire
from kwire.testing import KwireProcess
from kwire.testing.topics import create_topic

FILE: Final = ROOT / "docs" / "images" / "audit.png"
_RECORDS: Final = 200_000
_WIDTH, _HEIGHT = 1040, 1000
_WAIT_S: Final = 30.0


def main() -> int:
    """Make it."""
    if (reason := why_no_chromium()) is not None:
        print(reason)
        return 1
    with KwireProcess() as process, tempfile.TemporaryDirectory(prefix="kwire-picture-") as folder:
        report = Path(folder) / "report.html"
        for name in ("orders", "orders-copy"):
            create_topic(process.bootstrap_servers, name, 4, {}, _WAIT_S)
        planted = Planted(_RECORDS, each=2, batch=2500)
        planted.write(process.bootstrap_servers, "orders", "orders-copy")
        words = ["audit", "orders", "orders-copy", "-b", process.bootstrap_servers, "-q", "--html", str(report)]
        assert kwire([*words, "--examples", "1"]) == 1
        with browser() as chromium:
            page = chromium.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
            page.goto(report.as_uri())
            page.screenshot(path=str(FILE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
