"""Pages that ask for the same thing share an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.console.in_process import broker, console
from kwire.console.shared import KEPT_MAX, Answers


class Source:
    """What is asked: how often, and held up until it may answer."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.fails = False

    async def __call__(self) -> bytes:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        if self.fails:
            raise OSError("no answer")
        return b"%d" % number


async def test_those_who_ask_at_the_same_time_get_one_answer() -> None:
    answers, source = Answers(), Source()
    waiting = [asyncio.create_task(answers.get("k", source)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # one that goes away ends nothing for the others
    source.may_answer.set()
    assert await asyncio.gather(*waiting) == [b"1", b"1"]
    assert await answers.get("k", source) == b"1"
    assert await answers.get("other", source) == b"2"


async def test_a_failure_is_not_kept() -> None:
    answers, source = Answers(), Source()
    source.may_answer.set()
    source.fails = True
    with pytest.raises(OSError, match="no answer"):
        await answers.get("k", source)
    source.fails = False
    assert await answers.get("k", source) == b"2"


async def test_after_a_change_nothing_older_is_given() -> None:
    answers, source = Answers(), Source()
    before = asyncio.create_task(answers.get("k", source))
    await asyncio.sleep(0)
    answers.clear()
    source.may_answer.set()
    assert await answers.get("k", source) == b"2"
    assert await before == b"1"
    assert await answers.get("k", source) == b"2", "what was under way before the change is not kept"


async def test_only_so_many_answers_are_kept() -> None:
    answers, source = Answers(), Source()
    source.may_answer.set()
    for number in range(KEPT_MAX + 1):
        await answers.get(f"k{number}", source)
    asked = source.asked
    await answers.get(f"k{KEPT_MAX}", source)
    assert source.asked == asked
    await answers.get("k0", source)
    assert source.asked == asked + 1


async def test_pages_see_what_was_changed_through_the_console(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap, allow_changes=True) as client:
        assert (await client.get("/api/topics")).json() == []
        assert (await client.ask("POST", "/api/topics", {"name": "t"})).status == 200
        assert [each["name"] for each in (await client.get("/api/topics")).json()] == ["t"]
