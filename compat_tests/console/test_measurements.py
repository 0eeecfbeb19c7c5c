"""Small runs of what docs/CONSOLE.md has the numbers of: all parts are there, and the numbers are of the right things.
How large they are is not tested, because it depends on how busy the machine is."""

from __future__ import annotations

import pytest

from compat_tests.needs import need
from harness.console.browser import why_no_chromium
from tools.console import beside_producer, first_page


@pytest.fixture(autouse=True)
def _chromium() -> None:
    need(why_no_chromium())


def test_the_first_page() -> None:
    found = first_page.measure("kwire", topics=60, partitions=2, count=1, pause_s=0)
    for kind in ("first", "again"):
        medians = found[kind]["medians"]
        assert 0 < medians["asked"] <= medians["answered"] <= medians["drawn"] == found[kind]["greatest ms"]
        assert medians["bytes"] > 60 * len('{"name":"many-0000"}')


def test_the_console_beside_a_producer() -> None:
    found = beside_producer.measure("kwire", count=1, records=500)
    assert {way: len(runs) for way, runs in found["p99 ms"].items()} == {"closed": 1, "apart": 1, "beside": 1}
    medians = found["medians"]
    assert medians["closed"]["requests/s"] == medians["closed"]["browser"] == 0
    assert medians["apart"]["requests/s"] > 0
    for way in ("apart", "beside"):
        assert medians[way]["browser"] > 0 < medians[way]["console"]
