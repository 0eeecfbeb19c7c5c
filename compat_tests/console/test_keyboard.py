"""Without a mouse: every control is reached with Tab and shows that it has the focus, and the main actions work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.console.conftest import Console, running_console
from harness.processes.brokers import Broker, make_broker

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPIC = "by-keyboard"
GROUP = "readers"
STOPS_MAX = 200
FOCUS = """() => {
    const element = document.activeElement;
    if (element === document.body || element === null) return null;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
        what: element.outerHTML.slice(0, 120),
        seen: element.matches(":focus-visible") && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        placed: box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0 && box.left < innerWidth
            && box.top < innerHeight,
        isNew: element.stopOfTab === undefined && (element.stopOfTab = true),
    };
}"""
MISSED = """() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")];
    return all.filter((each) =>
        !each.stopOfTab && !each.disabled && each.checkVisibility()
        && !each.matches("[role=tab][aria-selected=false]")  // reached with the arrow keys
    ).map((each) => each.outerHTML.slice(0, 120));
}"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of kwire with a topic of a hundred messages and a group that has read half of them."""
    broker = make_broker("kwire", tmp_path_factory.mktemp("keyboard"))
    broker.start()
    try:
        config: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        admin = AdminClient(config)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        producer = Producer(config)
        for number in range(100):
            producer.produce(TOPIC, f'{{"user": "user-{number}"}}')
        assert producer.flush(60) == 0
        consumer = Consumer({**config, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 50)], asynchronous=False)
        consumer.close()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def console(filled: Broker, tmp_path: Path) -> Iterator[Console]:
    with running_console(tmp_path, filled.bootstrap) as started:
        yield started


def stops(page: Page) -> list[dict[str, Any]]:
    """What Tab comes to, from the beginning of the page to its end."""
    page.evaluate("document.activeElement.blur()")
    found: list[dict[str, Any]] = []
    for _ in range(STOPS_MAX):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUS)
        if here is None or not here["isNew"]:
            return found
        found.append(here)
    raise AssertionError(f"Tab does not come to an end: {found[-3:]}")


def tab_to(page: Page, role: str, name: str) -> None:
    """Press Tab until a control has the focus."""
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type] # any role
    wanted.first.wait_for()
    for _ in range(STOPS_MAX):
        page.keyboard.press("Tab")
        if wanted.first.evaluate("(each) => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not come to {role} {name}")


PLACES = (
    "topics",
    *(f"topics/{TOPIC}?tab={tab}" for tab in ("messages", "search", "tail", "partitions", "groups", "configs")),
    "groups",
    f"groups/{GROUP}",
    "brokers",
    "transactions",
    "access",
    "clusters",
)


def test_tab_comes_to_every_control_and_the_focus_is_seen(page: Page, console: Console) -> None:
    page.goto(console.url)
    page.route("**/api/events?**", lambda route: route.abort())  # nothing moves meanwhile
    for place in PLACES:
        page.goto(console.place(place))
        page.reload()
        page.get_by_role("heading", level=1).wait_for()
        page.locator("main:not(:has-text('Loading…'))").wait_for()
        page.get_by_text("ok", exact=True).first.wait_for()
        found = stops(page)
        assert [each["what"] for each in found if not (each["seen"] and each["placed"])] == [], place
        assert page.evaluate(MISSED) == [], place


def test_messages_are_found_and_opened_by_keyboard(page: Page, console: Console) -> None:
    keys: Callable[[str], None] = page.keyboard.press
    page.goto(console.url)
    page.get_by_role("link", name=TOPIC, exact=True).wait_for()
    keys("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    keys("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    keys("/")
    page.keyboard.type(TOPIC)
    assert page.get_by_role("searchbox", name="Filter").input_value() == TOPIC
    keys("Escape")
    keys("j")
    keys("Enter")
    page.get_by_role("heading", name=TOPIC).wait_for()

    tab_to(page, "tab", "Messages")
    keys("ArrowRight")
    page.get_by_role("tab", name="Search", selected=True).wait_for()
    tab_to(page, "textbox", "Value has")
    page.keyboard.type("user-7")
    keys("Enter")
    page.get_by_text("100 messages seen, 11 found; all messages seen").wait_for()
    tab_to(page, "button", "Show offset 71 of partition 0")
    keys("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text('"user-71"').wait_for()
    tab_to(page, "radio", "json")
    keys("ArrowRight")
    keys("ArrowRight")
    dialog.get_by_text("7b 22 75 73 65 72").wait_for()
    keys("Escape")
    dialog.wait_for(state="detached")
    back = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(back) == "Show offset 71 of partition 0"  # where one was
    keys("Enter")
    tab_to(page, "button", "Close")
    keys("Space")
    dialog.wait_for(state="detached")
    assert page.evaluate(back) == "Show offset 71 of partition 0"


def test_topics_are_made_written_to_and_groups_moved_by_keyboard(page: Page, console: Console) -> None:
    keys: Callable[[str], None] = page.keyboard.press
    page.goto(console.url)
    tab_to(page, "button", "New topic…")
    keys("Enter")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    page.keyboard.type("made-by-keyboard")  # the first field has the focus
    keys("Enter")
    dialog.wait_for(state="detached")
    tab_to(page, "button", "Favourite made-by-keyboard")
    keys("Space")
    page.get_by_role("button", name="Favourite made-by-keyboard", pressed=True).wait_for()
    tab_to(page, "link", "made-by-keyboard")
    keys("Enter")
    tab_to(page, "button", "Write…")
    keys("Enter")
    tab_to(page, "textbox", "Value")
    page.keyboard.type("typed")
    tab_to(page, "button", "Write")
    keys("Enter")
    page.get_by_text("Written to partition 0 at offset 0.").wait_for()
    keys("Escape")
    page.get_by_role("cell", name="typed").wait_for()

    page.goto(console.place("groups"))
    page.get_by_role("link", name=GROUP, exact=True).wait_for()
    keys("j")
    keys("Enter")
    page.get_by_text("lag 50").wait_for()
    tab_to(page, "button", "Go to…")
    keys("Enter")
    dialog.wait_for()
    page.keyboard.type("latest")  # the first field has the focus
    keys("Enter")
    dialog.get_by_role("cell", name=TOPIC).wait_for()
    tab_to(page, "button", "Commit")
    keys("Enter")
    page.get_by_text("lag 0").wait_for()
    tab_to(page, "combobox", "Colours")
    keys("d")  # Dark
    page.locator("html[data-theme=dark]").wait_for()
