"""Why ZooKeeper does not make a commit: it is too large, or one of its operations fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from kwire.cluster.store.store import CommitTooLarge, StoreUnavailable

TRANSACTION_BYTES_MAX: Final = 1024 * 1024 - 16 * 1024
"""ZooKeeper's servers close the connection on a request of 1 MiB (jute.maxbuffer)."""
OPERATION_BYTES: Final = 160


class OtherCommit(Exception):
    """Another broker has made the next commit."""


class SessionGone(Exception):
    """A session's node does not exist."""

    def __init__(self, session: int) -> None:
        super().__init__(session)
        self.session = session


class SessionThere(Exception):
    """The node of a session that should have ended exists."""


def check_size(operations: Sequence[Any]) -> None:
    """Raise `CommitTooLarge` for a transaction that the servers would not accept."""
    size = sum(OPERATION_BYTES + len(each.path) + len(getattr(each, "data", b"")) for each in operations)
    if size > TRANSACTION_BYTES_MAX:
        raise CommitTooLarge(f"the change has {size} bytes, ZooKeeper accepts at most {TRANSACTION_BYTES_MAX} at once")


def raise_failure(results: Sequence[Any], proofs: Sequence[tuple[str, int]], ends: int | None) -> NoReturn:
    """Raise the exception for the first failed operation of a transaction. ``proofs``: paths and the sessions whose
    nodes they are; ``ends``: the session that it ends."""
    import kazoo.exceptions as errors

    consequences = (errors.RolledBackError, errors.RuntimeInconsistency)
    index, error = next((at, each) for at, each in enumerate(results) if not isinstance(each, consequences))
    if index == 0 and isinstance(error, errors.BadVersionError):
        raise OtherCommit
    if 1 <= index <= len(proofs) and isinstance(error, errors.NoNodeError):
        raise SessionGone(proofs[index - 1][1])
    if ends is not None and index == 1 + len(proofs):
        if isinstance(error, errors.NodeExistsError):
            raise SessionThere
        if isinstance(error, errors.NoNodeError):
            raise SessionGone(ends)
    raise StoreUnavailable(f"ZooKeeper refuses a commit: {type(error).__name__} {error}".rstrip())
