"""Who may look: people who log in to the cluster, and those who have the token as long as it lasts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import uvicorn
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.comparisons.access.acls import DESCRIBE, READ, Acl, Acls
from compat_tests.console.conftest import CLUSTER, Console, console_process
from compat_tests.names import Names
from harness.console.axe import serious_faults
from harness.processes.brokers import Broker
from harness.processes.secured import USERS, SecuredBroker
from kwire.base.addresses import Address
from kwire.console.access import Access
from kwire.console.app import Console as Application
from kwire.console.app import Settings
from kwire.console.clusters import Clusters, Target

if TYPE_CHECKING:
    from playwright.sync_api import Page

LIFETIME_S = 3600.0
TOKEN = "the-token-of-the-tests"


def log_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_people_log_in_as_users_of_the_cluster(
    page: Page, guarded: SecuredBroker, acls: Acls, new_name: Names, tmp_path: Path
) -> None:
    orders, secret = new_name("orders"), new_name("secret")
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in (orders, secret)]).values():
        future.result(30)
    acls.create(Acl(name=orders, operation=READ), Acl(name=secret, principal="User:bob", operation=DESCRIBE))
    options = ["--login", "--allow-changes", "--bootstrap-server", f"{CLUSTER}={guarded.address('SASL_PLAINTEXT')}"]
    options += ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=SCRAM-SHA-256"]
    with console_process(tmp_path, *options) as url:
        assert "token" not in url
        console = Console(url)
        page.goto(console.place("topics"))
        page.get_by_role("heading", name="Log in").wait_for()
        assert serious_faults(page) == []
        log_in(page, "alice", "not her password")
        page.get_by_role("alert").get_by_text("refuses this name and password").wait_for()
        log_in(page, "alice", USERS["alice"])
        page.get_by_role("link", name=orders, exact=True).wait_for()
        assert page.get_by_role("link", name=secret, exact=True).count() == 0
        page.reload()  # the cookie lets in
        page.get_by_role("link", name=orders, exact=True).click()
        page.get_by_text("No messages here.").wait_for()
        page.get_by_role("button", name="Write…").click()  # she may read only
        page.get_by_role("dialog").get_by_role("button", name="Write", exact=True).click()
        page.get_by_role("dialog").get_by_role("alert").wait_for()
        page.goto(console.topic(secret, "messages"))
        page.get_by_role("alert").first.wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()
        assert page.evaluate("async () => (await fetch('/api/topics')).status") == 401
        page.goto(console.place("topics"))
        log_in(page, "bob", USERS["bob"])
        page.get_by_role("link", name=secret, exact=True).wait_for()
        assert page.get_by_role("link", name=orders, exact=True).count() == 0


class Clock:
    """Seconds, as the test wants them."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def console_with(clock: Clock, bootstrap: str) -> Iterator[Console]:
    """A console in this process, whose token expires after `LIFETIME_S` by this clock."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        address = Address("127.0.0.1", bound.getsockname()[1])
        clusters = Clusters([Target(CLUSTER, bootstrap, {}, 60.0)], read_only=True)
        access = Access(TOKEN, address, lifetime_s=LIFETIME_S, clock=clock)
        made = Application(clusters, access, Settings(allow_changes=False))
        server = uvicorn.Server(uvicorn.Config(made.app(), ws="none", lifespan="off", log_config=None))

        async def serve() -> None:
            try:
                await server.serve(sockets=[bound])
            finally:
                made.close()

        thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        try:
            yield Console(f"http://{address}/?token={TOKEN}")
        finally:
            server.force_exit = server.should_exit = True
            thread.join()


def test_a_token_that_has_expired_and_a_wrong_one(page: Page, broker: Broker) -> None:
    clock = Clock()
    with console_with(clock, broker.bootstrap) as console:
        page.goto(f"{console.base}?token={TOKEN[:-1]}")
        page.get_by_text("the one given is wrong, or has expired").wait_for()
        assert page.context.cookies() == []
        page.goto(console.base)  # without a token
        page.get_by_text("This page needs the address").wait_for()
        page.goto(console.url)
        page.get_by_role("heading", name="Topics").wait_for()
        page.goto(console.place("clusters"))
        page.get_by_text("ok", exact=True).first.wait_for()
        clock.now_s = LIFETIME_S  # while the page is open
        expired = page.get_by_role("alert").filter(has_text="is missing, wrong or expired")
        expired.first.wait_for()
        assert "Open the address that kwire console has written" in expired.first.inner_text()
        page.reload()
        page.get_by_text("This page needs the address").wait_for()
        page.goto(console.url)
        page.get_by_text("the one given is wrong, or has expired").wait_for()
