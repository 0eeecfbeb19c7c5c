"""Conformance tests for every metadata store: a test module imports all names and provides the fixture `store`."""

from __future__ import annotations

import asyncio

import pytest

from harness.optional import present
from kwire.cluster.store.store import ABSENT, Check, Conflict, Event, MetadataStore, SessionLost, Write


async def values(store: MetadataStore, prefix: str = "") -> dict[str, bytes]:
    """All values below `prefix`, by key."""
    return {key: entry.value for key, entry in (await store.read(prefix))[1].items()}


async def test_a_written_key_is_read_back_with_its_version(store: MetadataStore) -> None:
    revision = await store.commit([], [Write("a/1", b"x")])
    assert revision > 0
    at, entries = await store.read("a/")
    assert at == revision
    assert entries == {"a/1": (b"x", revision, revision, None)}


async def test_read_takes_a_prefix_literally_and_returns_keys_in_order(store: MetadataStore) -> None:
    await store.commit([], [Write(key, b"") for key in ("b", "a_2", "a%", "a/1", "ab", "A")])
    assert list((await store.read("a"))[1]) == ["a%", "a/1", "a_2", "ab"]
    assert list((await store.read("a_"))[1]) == ["a_2"]
    assert list((await store.read(""))[1]) == ["A", "a%", "a/1", "a_2", "ab", "b"]
    assert (await store.read("zz"))[1] == {}


async def test_commit_writes_all_or_nothing(store: MetadataStore) -> None:
    first = await store.commit([], [Write("a", b"1"), Write("b", b"1")])
    with pytest.raises(Conflict) as caught:
        await store.commit([Check("a", first), Check("b", first + 17)], [Write("a", b"2"), Write("c", b"2")])
    assert caught.value.key == "b"
    assert await values(store) == {"a": b"1", "b": b"1"}
    assert (await store.read(""))[0] == first


async def test_absent_is_a_version_that_can_be_checked(store: MetadataStore) -> None:
    await store.commit([Check("a", ABSENT)], [Write("a", b"1")])
    with pytest.raises(Conflict):
        await store.commit([Check("a", ABSENT)], [Write("a", b"2")])


async def test_a_check_of_a_key_that_is_not_written_counts_too(store: MetadataStore) -> None:
    controllership = await store.commit([], [Write("controller", b"1")])
    await store.commit([Check("controller", controllership)], [Write("topic", b"1")])
    await store.commit([], [Write("controller", b"2")])
    with pytest.raises(Conflict):
        await store.commit([Check("controller", controllership)], [Write("topic", b"2")])


async def test_of_two_writers_from_the_same_version_one_wins(store: MetadataStore) -> None:
    version = await store.commit([], [Write("a", b"0")])
    results = await asyncio.gather(
        *(store.commit([Check("a", version)], [Write("a", b"%d" % n)]) for n in (1, 2)), return_exceptions=True
    )
    assert [isinstance(result, Conflict) for result in results] == [False, True]
    assert await values(store) == {"a": b"1"}


async def test_a_version_is_never_used_twice(store: MetadataStore) -> None:
    first = await store.commit([], [Write("a", b"1")])
    await store.commit([], [Write("a", None)])
    again = await store.commit([], [Write("a", b"1")])
    assert again > first
    with pytest.raises(Conflict):
        await store.commit([Check("a", first)], [Write("a", b"2")])


async def test_created_stays_when_a_key_is_overwritten_and_changes_when_it_is_created_again(
    store: MetadataStore,
) -> None:
    first = await store.commit([], [Write("a", b"1")])
    second = await store.commit([], [Write("a", b"2")])
    assert (await store.read("a"))[1]["a"][:3] == (b"2", second, first)
    await store.commit([], [Write("a", None)])
    third = await store.commit([], [Write("a", b"3")])
    assert (await store.read("a"))[1]["a"].created == third


async def test_deleting_an_absent_key_is_no_error_and_no_change(store: MetadataStore) -> None:
    events: list[Event] = []
    await store.subscribe(events.append)
    await store.commit([], [Write("a", None)])
    await store.commit([], [Write("b", b"1")])
    assert [change.key for event in events for change in event.changes] == ["b"]


async def test_a_commit_that_changes_nothing_is_an_event_with_its_revision(store: MetadataStore) -> None:
    events: list[Event] = []
    await store.subscribe(events.append)
    revision = await store.commit([], [Write("a", None)])
    assert (events[-1].revision, events[-1].changes) == (revision, [])


async def test_only_ephemeral_keys_vanish_with_their_session(store: MetadataStore) -> None:
    mine, other = await store.open_session("one", lease_ms=9000), await store.open_session("two", lease_ms=9000)
    await store.commit([], [Write("m", b"", mine.id), Write("o", b"", other.id), Write("p", b"")])
    events: list[Event] = []
    await store.subscribe(events.append)
    await mine.close()
    assert not mine.alive
    assert other.alive
    assert await values(store) == {"o": b"", "p": b""}
    assert [(change.key, change.entry) for change in events[-1].changes] == [("m", None)]


async def test_a_closed_session_can_write_nothing(store: MetadataStore) -> None:
    session = await store.open_session("one", lease_ms=9000)
    await session.close()
    with pytest.raises(SessionLost):
        await store.commit([], [Write("a", b""), Write("b", b"", session.id)])
    assert await values(store) == {}


async def test_an_ephemeral_key_can_become_a_lasting_one(store: MetadataStore) -> None:
    session = await store.open_session("one", lease_ms=9000)
    await store.commit([], [Write("a", b"1", session.id)])
    await store.commit([], [Write("a", b"2")])
    await session.close()
    assert await values(store) == {"a": b"2"}


async def test_the_feed_begins_with_the_whole_state_and_continues_with_every_change(store: MetadataStore) -> None:
    first = await store.commit([], [Write("a", b"1"), Write("b", b"1")])
    events: list[Event] = []
    subscription = await store.subscribe(events.append)
    assert [(change.key, present(change.entry).value) for change in events[0].changes] == [("a", b"1"), ("b", b"1")]
    assert (events[0].revision, events[0].consistent) == (first, True)
    second = await store.commit([], [Write("a", b"2"), Write("b", None), Write("c", b"2")])
    assert len(events) == 2  # delivered before `commit` returned
    assert {change.key: change.entry and change.entry.value for change in events[1].changes} == {
        "a": b"2",
        "b": None,
        "c": b"2",
    }
    assert events[1].revision == second
    subscription.close()
    await store.commit([], [Write("a", b"3")])
    assert len(events) == 2


async def test_replaying_the_feed_gives_the_same_state_as_a_read(store: MetadataStore) -> None:
    state: dict[str, bytes] = {}
    revisions: list[int] = []

    def follow(event: Event) -> None:
        revisions.append(event.revision)
        for key, entry in event.changes:
            if entry is None:
                del state[key]
            else:
                state[key] = entry.value

    await store.subscribe(follow)
    await asyncio.gather(
        *(store.commit([], [Write(f"k{n % 7}", None if n % 3 == 0 else b"%d" % n)]) for n in range(40))
    )
    assert state == await values(store)
    assert revisions == sorted(revisions)


async def test_a_cancelled_writer_does_not_hide_its_commit_from_the_feed(store: MetadataStore) -> None:
    state: dict[str, object] = {}
    await store.subscribe(lambda event: state.update({change.key: change.entry for change in event.changes}))
    task = asyncio.create_task(store.commit([], [Write("a", b"1")]))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.commit([], [Write("b", b"1")])
    assert sorted(state) == sorted(await values(store))


async def test_a_commit_that_writes_a_key_twice_is_a_defect(store: MetadataStore) -> None:
    with pytest.raises(ValueError, match="twice"):
        await store.commit([], [Write("a", b"1"), Write("a", b"2")])
