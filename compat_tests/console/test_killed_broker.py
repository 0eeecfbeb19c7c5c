"""A broker is killed while one looks: the page shows it, and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.console.conftest import running_console
from harness.processes.kwire_cluster import KwireCluster

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_partitions_move_and_brokers_go(page: Page, tmp_path: Path) -> None:
    cluster = KwireCluster(tmp_path / "cluster")
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        new = NewTopic("moving", num_partitions=3, replication_factor=3)
        admin.create_topics([new], operation_timeout=30)["moving"].result(30)
        with running_console(tmp_path, cluster.bootstrap) as console:
            page.goto(console.url)
            page.goto(console.topic("moving", "partitions"))
            page.get_by_role("row").nth(3).wait_for()
            assert page.get_by_title("Broker 3: leader").count() == 1
            cluster.brokers[3].kill()
            page.get_by_title("Broker 3: not in sync").nth(2).wait_for()
            page.locator("main:not(:has([title='Broker 3: leader']))").wait_for()
            page.goto(console.place("brokers"))
            page.get_by_role("row", name="gone").wait_for()
            page.goto(console.topic("moving", "messages"))
            page.get_by_text("No messages here.").wait_for()
            cluster.brokers[3].start()
            page.goto(console.topic("moving", "partitions"))
            page.get_by_role("row").nth(3).wait_for()
            page.locator("main:not(:has([title='Broker 3: not in sync']))").wait_for()
            cluster.kill()
            page.get_by_text("test cannot be reached").wait_for()
    finally:
        cluster.kill()
