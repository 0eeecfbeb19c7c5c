"""Every page, as people use it: topics, messages, search, the live tail, groups, brokers."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer

from compat_tests.console.conftest import Console
from compat_tests.names import Names
from harness.console.axe import serious_faults
from harness.processes.brokers import Broker

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    '{"constructor": null, "type": "script", "props": {"dangerouslySetInnerHTML": {"__html": "<b>"}}}',
    "javascript:alert(3)",
    "\u202eright to left\u0000\ufffd",
)
TABS = ("messages", "search", "tail", "partitions", "groups", "configs", "producers")
PAGES = ("topics", "groups", "brokers", "brokers/1", "transactions", "access", "clusters")


def produce(broker: Broker, topic: str, *values: str | bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, key=b"k")
    assert producer.flush(30) == 0


def in_list(page: Page, topic: str) -> Locator:
    """A topic's link in the list of topics. The broker may have more topics, of other tests, than are drawn."""
    page.get_by_role("searchbox", name="Filter").fill(topic)
    return page.get_by_role("link", name=topic, exact=True)


def test_topics_are_listed_without_a_click(page: Page, console: Console, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    page.goto(console.url)
    in_list(page, topic).wait_for()
    assert "token" not in page.url
    page.reload()  # the cookie lets in
    in_list(page, topic).click()
    page.get_by_role("heading", name=topic).wait_for()
    page.goto(f"{console.base}?token=wrong")
    page.get_by_text("it ends in").wait_for()


def test_a_place_that_changes_before_the_first_paint_is_shown(
    page: Page, console: Console, make_topic: Callable[..., str]
) -> None:
    target = console.topic(make_topic(1), "messages")
    page.add_init_script(f"requestAnimationFrame = () => 0; onload = () => location.href = {target!r}")
    page.goto(console.url)
    page.get_by_text("No messages here.").wait_for()


def test_every_page_is_accessible_and_fits_a_phone(
    page: Page, console: Console, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    produce(broker, topic, *(f'{{"n": {n}}}' for n in range(60)))
    page.goto(console.url)
    addresses = [console.topic(topic, tab) for tab in TABS] + [console.place(each) for each in PAGES]
    for address in addresses:
        page.goto(address)
        page.get_by_role("heading", level=1).wait_for()
        page.locator("main:not(:has-text('Loading…'))").wait_for()
        assert serious_faults(page) == [], address
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
        page.set_viewport_size({"width": 1200, "height": 800})
    page.get_by_label("Colours").select_option("dark")
    assert serious_faults(page) == []


def test_messages_are_shown_found_and_followed(
    page: Page, console: Console, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    produce(broker, topic, *(f'{{"user": {{"name": "user-{n}", "password": "secret-{n}"}}}}' for n in range(100)))
    page.goto(console.url)
    page.goto(console.topic(topic, "messages"))
    page.get_by_text("user-99").wait_for()
    page.get_by_role("button", name="Earlier").click()
    page.get_by_text("user-49").wait_for()
    page.get_by_role("button", name="Show offset 49 of partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text('"user-49"').wait_for()
    dialog.get_by_role("radio", name="hex").check()
    dialog.get_by_text("7b 22 75 73 65 72").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_text("Masked fields").click()
    page.get_by_label("Names or paths").fill("password")
    page.get_by_text("•••").first.wait_for()
    assert "secret-49" not in page.inner_text("main")

    page.get_by_role("tab", name="Search").click()
    page.get_by_label("Value has").fill("user-7")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("100 messages seen, 11 found; all messages seen").wait_for()
    assert "value=user-7" in page.url  # a link that can be sent

    page.get_by_role("tab", name="Live").click()
    page.get_by_text("messages a second").wait_for()
    page.get_by_text("Waiting for messages…").wait_for()
    while page.get_by_text("a new one").count() == 0:  # the tail may begin after the first
        produce(broker, topic, "a new one")
        page.wait_for_timeout(100)
    rows = page.get_by_role("region", name="Newest messages").locator("tbody tr")
    while rows.count() != 20:  # more than anybody can read
        produce(broker, topic, *map(str, range(200)))
        page.wait_for_timeout(100)
    page.get_by_role("button", name="Pause").click()
    rows.nth(20).wait_for()  # the rest of those that the page keeps


def test_a_search_is_stopped(page: Page, console: Console, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)  # it gets no response: the search goes on until it is stopped

    page.goto(console.url)
    page.route("**/search?**", hold)
    page.goto(console.topic(topic, "search"))
    page.get_by_label("Value has").fill("user")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("Searching…").wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("Nothing seen yet; cancelled.").wait_for()
    page.get_by_role("button", name="Search", exact=True).wait_for()
    assert len(held) == 1


def test_nothing_in_a_message_runs(
    page: Page, console: Console, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    produce(broker, topic, *HOSTILE, b"\xff\xfe\x00")
    page.goto(console.url)
    page.goto(console.topic(topic, "messages"))
    page.get_by_text("onerror=alert(1)").wait_for()
    for offset in range(len(HOSTILE) + 1):
        page.get_by_role("button", name=f"Show offset {offset} of partition 0").click()
        dialog = page.get_by_role("dialog")
        for form in ("json", "text", "hex"):
            dialog.get_by_role("radio", name=form).check()
        dialog.get_by_role("button", name="Close").click()
    assert page.locator("main img, main script, dialog img, dialog script").count() == 0


def test_a_topic_is_made_and_written_to(page: Page, console: Console, new_name: Names) -> None:
    name = new_name("topic")
    page.goto(console.url)
    page.get_by_role("button", name="New topic…").click()
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    page.locator("body:not(:has(dialog)), dialog [role=alert]").first.wait_for()
    assert page.get_by_role("dialog").all_inner_texts() == []
    in_list(page, name).click()
    page.get_by_role("button", name="Write…").click()
    page.get_by_role("dialog").get_by_label("Value").fill("by hand")
    page.get_by_role("dialog").get_by_role("button", name="Write", exact=True).click()
    page.get_by_text("Written to partition 0 at offset 0.").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("cell", name="by hand").wait_for()


def test_a_group_has_its_lag(
    page: Page, console: Console, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    topic, group = make_topic(1), new_name("group")
    produce(broker, topic, *["v"] * 10)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert len(consumer.consume(4, 30)) == 4
    consumer.commit(asynchronous=False)
    consumer.close()
    page.goto(console.url)
    page.goto(console.topic(topic, "groups"))
    page.get_by_role("link", name=group, exact=True).click()
    page.get_by_text("lag 6").wait_for()
    page.get_by_role("img", name=f"Lag over time; now {topic}: 6").wait_for()
    page.get_by_role("button", name="Go to…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To", exact=True).fill("latest")
    dialog.get_by_role("button", name="Show").click()
    dialog.get_by_role("button", name="Commit").click()
    page.get_by_text("lag 0").wait_for()


FETCH = """async ([url, options]) => {
    try {
        return (await fetch(url, {credentials: "include", ...options})).type;
    } catch (error) {
        return "failed";
    }
}"""


class _Elsewhere(BaseHTTPRequestHandler):
    """A page of another origin on the same host."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written."""


def test_a_page_from_elsewhere_gets_nothing(page: Page, console: Console, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    page.goto(console.url)
    in_list(page, topic).wait_for()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        topics, messages = f"{console.base}api/topics", f"{console.base}api/topics/{topic}/messages"
        assert page.evaluate(FETCH, [topics, {}]) == "failed"
        for options in ({"mode": "no-cors"}, {"mode": "no-cors", "method": "POST", "body": "{}"}):
            assert page.evaluate(FETCH, [messages, options]) in ("failed", "opaque")
    finally:
        server.shutdown()
        server.server_close()
    page.goto(console.topic(topic, "messages"))
    page.get_by_text("No messages here.").wait_for()
