"""One console of several clusters: one of each kind, and one that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.console.conftest import Console, console_process
from harness.processes.brokers import Broker, make_broker
from harness.processes.ports import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_clusters_are_chosen_and_kept_apart(
    page: Page, broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2)
    second = make_broker("kwire", tmp_path / "second")
    second.start()
    try:
        admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("only-there", 1, 1)])["only-there"].result(30)
        addresses = {"first": broker.bootstrap, "second": second.bootstrap, "gone": f"127.0.0.1:{free_port()}"}
        options = [word for name, each in addresses.items() for word in ("-b", f"{name}={each}")]
        with console_process(tmp_path, *options) as url:
            look_at_all(page, Console(url), topic)
            second.kill()
            page.goto(f"{Console(url).base}#/second/topics")
            page.get_by_text("second cannot be reached").wait_for()
            page.get_by_role("combobox", name="Cluster").select_option("first")
            page.get_by_role("searchbox", name="Filter").fill(topic)  # the broker has hundreds of other tests' topics
            page.get_by_role("link", name=topic, exact=True).wait_for()
    finally:
        second.kill()


def look_at_all(page: Page, console: Console, topic: str) -> None:
    page.goto(console.url)  # the first cluster, without a click
    page.get_by_role("searchbox", name="Filter").fill(topic)
    page.get_by_role("link", name=topic, exact=True).wait_for()
    assert page.get_by_role("link", name="only-there").count() == 0
    assert "#/first/topics" in page.url

    page.get_by_role("combobox", name="Cluster").select_option("second")
    page.get_by_role("button", name="Favourite only-there").click()
    page.get_by_role("link", name="only-there", exact=True).click()
    page.get_by_role("heading", name="only-there").wait_for()
    assert page.url.endswith("#/second/topics/only-there")  # a link that can be sent

    page.get_by_role("combobox", name="Cluster").select_option("gone")
    page.get_by_text("gone cannot be reached").wait_for()
    page.goto(f"{console.base}#/none/topics")
    page.get_by_text("There is no cluster none.").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Clusters").click()
    table = page.get_by_role("region", name="Clusters")
    for name, status in {"first": "ok", "second": "ok", "gone": "unreachable"}.items():
        table.get_by_role("row", name=name).get_by_text(status, exact=True).wait_for()
    table.get_by_role("link", name="second", exact=True).click()
    page.get_by_role("button", name="Favourite only-there", pressed=True).wait_for()
    assert page.get_by_role("link", name=topic).count() == 0
