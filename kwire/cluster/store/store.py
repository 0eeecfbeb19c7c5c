"""`MetadataStore`: holds the cluster's state; every change of that state is a commit to it.

The contract that everything in `kwire.cluster` relies on:

* **Keys and values.** Keys are text with ``/`` as separator (`kwire.cluster.store.keys` lists them); values are small
  (`VALUE_BYTES_MAX`) bytes. Data that can grow is split over several keys.
* **Versions.** Every key has a version: an opaque integer that changes with each write and is never used twice, not
  even when a key is deleted and written again. `ABSENT` stands for "there is no such key".
* **Commit.** `commit(checks, writes)` is a compare-and-set over several keys: either every check holds and every write
  is made, or nothing happens and `Conflict` names a check that failed. To make a decision, a broker reads first, and
  then checks the versions of all keys that it relied on, including its own controllership and registration. So a
  broker that was paused, cut off or replaced can do no harm when it resumes: its checks fail.
* **Unknown outcome.** `StoreUnavailable` from a commit means that it may or may not have happened. Read again, then
  decide again.
* **Revision.** The store as a whole has a revision, an integer that grows with every commit.
* **Feed.** `subscribe` first delivers the whole state, then the changes. It may skip values of a key that have been
  overwritten, but never the latest, and the versions of one key arrive in order. An event whose ``consistent`` is true
  completes a state that the store really had, at ``revision``; only then may decisions be based on it.
* **Sessions.** A session belongs to one process. Keys written with it are ephemeral: they vanish, in one commit, when
  it is closed or lost. `Session.on_loss` callbacks run before this process does anything else about the loss, because
  a broker without a session is fenced.
* ``Entry.created`` is the revision at which a key was created. The one of an ephemeral registration is the broker
  epoch: no earlier registration had the same number.

Implementations: `kwire.cluster.store.embedded` (SQLite, one broker), `store.shared` (SQLite, brokers of one host),
`zookeeper` (several hosts) and `memory` (simulation). All pass ``harness/store_conformance.py``.

What lives elsewhere: the meaning of the keys (`keys`), and the state that brokers build from them (`image`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

ABSENT: Final = 0
"""The version of a key that does not exist."""

VALUE_BYTES_MAX: Final = 512 * 1024
"""The largest value; ZooKeeper refuses commits of about 1 MiB."""

KEY_CHARACTERS_MAX: Final = 1024


class StoreError(Exception):
    """Any failure of the store; the subclasses say which."""


class Conflict(StoreError):
    """A check of a commit did not hold. Nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class StoreUnavailable(StoreError):
    """The store cannot be reached or failed. A commit that raises this may or may not have happened."""


class StoreFull(StoreUnavailable):
    """The store's disk is full. Nothing was written; writes succeed again when there is space."""


class CommitTooLarge(StoreError):
    """The store does not accept so many bytes in one commit. Nothing was written."""


class SessionLost(StoreError):
    """The session of an ephemeral write has ended; the write did not happen."""

    def __init__(
        self, text: str = "the session with the metadata store is over: this broker sent no heartbeat in time"
    ):
        super().__init__(text)


class StoreFormatError(StoreError):
    """The store was written by a newer kwire, or is not a kwire store. The message is for operators."""


class Entry(NamedTuple):
    """The value of a key. ``created``: the store revision that created the key. ``session``: the id of the session
    that it vanishes with, or None."""

    value: bytes
    version: int
    created: int
    session: int | None = None


class Check(NamedTuple):
    """A condition of a commit: the key has exactly this version (`ABSENT`: does not exist)."""

    key: str
    version: int


class Write(NamedTuple):
    """Set a key, or delete it (``value=None``; no error if it is absent). ``session``: the id of the session that the
    key vanishes with."""

    key: str
    value: bytes | None
    session: int | None = None


class Change(NamedTuple):
    """One key in the feed: its newest entry, or None if it was deleted."""

    key: str
    entry: Entry | None


class Event(NamedTuple):
    """A step of the feed (see the module's docstring)."""

    changes: Sequence[Change]
    revision: int
    consistent: bool


Listener = Callable[[Event], None]
"""Called on the event loop; must not block and must not raise."""


class Session(Protocol):
    """A session of this process with the store."""

    id: int
    """The value for `Write.session`."""

    @property
    def alive(self) -> bool:
        """Whether the session is neither closed nor known to be lost."""

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once if the session is lost (not if it is closed)."""

    async def close(self) -> None:
        """End the session; its keys are gone when this returns."""


class Subscription(Protocol):
    """A listener's subscription to the feed."""

    def close(self) -> None:
        """Deliver no further events."""


class MetadataStore(Protocol):
    """The interface; see the module's docstring. Every method may raise `StoreUnavailable`."""

    async def open(self) -> None:
        """Connect, and create what is missing. `StoreFormatError` if this version of kwire cannot use the store."""

    async def close(self) -> None:
        """Close all sessions of this process and disconnect."""

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """The keys that start with a prefix ("": all), in key order, as they were at the revision returned."""

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """Make all writes if all checks hold; returns the new revision, which is also the version of each key written.
        `Conflict`, `SessionLost`."""

    async def open_session(self, owner: str, *, lease_ms: int) -> Session:
        """Start a session. ``owner`` is a name for log lines. ``lease_ms``: how long a paused or unreachable owner
        keeps the session (a dead process loses it at once if the store can detect that)."""

    async def subscribe(self, listener: Listener) -> Subscription:
        """Follow the feed; the first event, the whole state, is delivered before this returns."""


def check_commit(checks: Sequence[Check], writes: Sequence[Write]) -> None:
    """Raise ValueError for a commit that no store accepts: a key written twice, a key or value that is too large.

    Commits are made by kwire itself, so such a commit is a defect, not bad input.
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
