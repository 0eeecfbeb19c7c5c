"""`MetadataStore`: where the cluster's state lives, and the only way in which it is decided.

The whole theory, because everything in this room rests on it:

* **Keys and values.** Keys are text with ``/`` as separator (`kwire.cluster.store.keys` has them all); values are small
  (`VALUE_BYTES_MAX`) bytes. A thing that can grow is cut into several keys.
* **Versions.** Every key has a version: an opaque integer that changes with each write and never comes back, not even
  when a key is deleted and written anew. `ABSENT` stands for "there is no such key".
* **Commit.** `commit(checks, writes)` is compare-and-set over several keys: either every check holds and every write
  is made, or nothing happens and `Conflict` names a check that failed. Whoever decides something reads first, and
  checks the versions of all it relied on, its own office (controller key, broker registration) included. So a broker
  that was paused, cut off or replaced cannot do harm when it wakes: its checks fail.
* **Unknown outcome.** `StoreUnavailable` from a commit means that it may or may not have happened. Read again, then
  decide again.
* **Revision.** The store as a whole has a revision, an integer that grows with every commit.
* **Feed.** `subscribe` delivers first everything, then what changes. It may skip values of a key that were
  overwritten meanwhile, but never the latest, and the versions of one key come in order. An event whose
  ``consistent`` is true completes a state that the store really had, at ``revision``; only then should decisions be
  made from what was gathered.
* **Sessions.** A session belongs to one process. Keys written with it are ephemeral: they vanish, in one commit, when
  it is closed or lost. `Session.on_loss` callbacks run before anything else that this process does about it: whoever
  lost its session is nobody any more (fencing).
* ``Entry.created`` is the revision at which a key came into being, so an ephemeral registration gets a number that
  no earlier registration had: the broker epoch.

Implementations: `kwire.cluster.store.embedded` (SQLite, one broker), `shared_store` (SQLite, brokers of one host),
`zookeeper` (several hosts) and `memory` (simulation). All pass ``harness/store_conformance.py``.

What lives elsewhere: what the keys mean (`keys`), and the state that brokers make of them (`image`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

ABSENT: Final = 0
"""The version of a key that does not exist."""

VALUE_BYTES_MAX: Final = 512 * 1024
"""Largest value; a store for several hosts refuses about 1 MiB per commit."""

KEY_CHARACTERS_MAX: Final = 1024


class StoreError(Exception):
    """Any failure of the store; the two below tell more."""


class Conflict(StoreError):
    """A check of a commit did not hold. Nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class StoreUnavailable(StoreError):
    """The store cannot be reached or failed. A commit that ends so may have happened or not."""


class StoreFull(StoreUnavailable):
    """The store has no room left. Nothing was written; it takes writes again when there is room."""


class SessionLost(StoreError):
    """The session of an ephemeral write is over; the write did not happen."""

    def __init__(self, text: str = "the session with the metadata store is over: this broker was silent for too long"):
        super().__init__(text)


class StoreFormatError(StoreError):
    """The store was written by a newer kwire, or is no store at all. The message is for people."""


class Entry(NamedTuple):
    """What a key holds. ``created``: the store revision that brought it into being. ``session``: id of the session
    that it vanishes with, or None."""

    value: bytes
    version: int
    created: int
    session: int | None = None


class Check(NamedTuple):
    """The key must have this very version (`ABSENT`: must not exist) for a commit to happen."""

    key: str
    version: int


class Write(NamedTuple):
    """Set a key, or delete it (``value=None``; content if it is absent already). ``session``: the session's id makes
    the key ephemeral."""

    key: str
    value: bytes | None
    session: int | None = None


class Change(NamedTuple):
    """One key in the feed: its newest entry, or None when it is gone."""

    key: str
    entry: Entry | None


class Event(NamedTuple):
    """A step of the feed (see the module's theory)."""

    changes: Sequence[Change]
    revision: int
    consistent: bool


Listener = Callable[[Event], None]
"""Called on the event loop; must not block and must not raise."""


class Session(Protocol):
    """This process's presence in the store."""

    id: int
    """What `Write.session` takes."""

    @property
    def alive(self) -> bool:
        """False from the moment in which the loss is known here."""

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Run a callback once, when the session is lost (not when it is closed)."""

    async def close(self) -> None:
        """End the session; its keys vanish before this returns."""


class Subscription(Protocol):
    def close(self) -> None:
        """No further events."""


class MetadataStore(Protocol):
    """See the module's theory. Every method may raise `StoreUnavailable`."""

    async def open(self) -> None:
        """Connect, or create what is missing. `StoreFormatError` when it is not for this version of kwire."""

    async def close(self) -> None:
        """Close all sessions of this process and disconnect."""

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """The keys that start with a prefix ("": all), in key order, as they were at the revision returned."""

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """Make all the writes if all the checks hold; returns the new revision, which is also the version of each
        key written. `Conflict`, `SessionLost`."""

    async def open_session(self, owner: str, *, lease_ms: int) -> Session:
        """Start a session. ``owner`` is for people; ``lease_ms`` is how long a paused or unreachable owner keeps it
        (a dead process loses it at once where the store can see that)."""

    async def subscribe(self, listener: Listener) -> Subscription:
        """Follow the feed; the whole state has been delivered, as the first event, before this returns."""


def check_commit(checks: Sequence[Check], writes: Sequence[Write]) -> None:
    """Refuse with ValueError what no store takes: a key written twice, a key or value that is too large.

    Commits are made by kwire itself, so this is a defect, not bad input.
    """
    seen: set[str] = set()
    for key, value, _ in writes:
        if key in seen:
            raise ValueError(f"key {key} is written twice in one commit")
        seen.add(key)
        if not key or len(key) > KEY_CHARACTERS_MAX:
            raise ValueError(f"key of {len(key)} characters")
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"value of {len(value)} bytes for key {key}")
    if len({check.key for check in checks}) != len(checks):
        raise ValueError("a key is checked twice in one commit")
