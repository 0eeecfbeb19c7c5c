"""The log of commits in ZooKeeper: the encoding of its entries, and `Mirror`, the state that they are applied to.

Bytes and dictionaries only. What lives elsewhere: the protocol, and all calls to ZooKeeper (`zookeeper.store`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kwire.cluster.store.store import ABSENT, Change, Entry, StoreFormatError, Write

FORMAT: Final = 1
PLAIN_BYTES_MAX: Final = 1024
ENTRY_BYTES_MAX: Final = 256 * 1024
"""An entry that would be larger has no writes; its readers must read the whole state again."""

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


class LogEntry(NamedTuple):
    """One commit: its writes and the sessions that it ended. ``writes`` is None if they did not fit."""

    writes: list[Write] | None
    ended: list[int]


def pack_entry(writes: Sequence[Write], ended: Sequence[int]) -> bytes:
    """JSON, compressed if it is long. Values are bytes, encoded as Latin-1 characters."""
    rows = [[key, None if value is None else value.decode("latin-1"), session] for key, value, session in writes]
    data = _json(w=rows, e=list(ended))
    if len(data) > PLAIN_BYTES_MAX:
        data = zlib.compress(data, 1)
    return data if len(data) <= ENTRY_BYTES_MAX else _json(w=None, e=list(ended))


def unpack_entry(data: bytes) -> LogEntry:
    """The inverse of `pack_entry`. `StoreFormatError`."""
    try:
        fields = json.loads(data if data[:1] == b"{" else zlib.decompress(data))
        if fields["v"] > FORMAT:
            raise StoreFormatError("the metadata store in ZooKeeper was written by a newer kwire")
        rows = fields["w"]
        if rows is None:
            return LogEntry(None, fields["e"])
        writes = [
            Write(key, None if value is None else value.encode("latin-1"), session) for key, value, session in rows
        ]
        return LogEntry(writes, fields["e"])
    except (ValueError, KeyError, TypeError, zlib.error):
        raise StoreFormatError("ZooKeeper holds something other than kwire's log of changes") from None


def _json(**fields: object) -> bytes:
    return json.dumps({"v": FORMAT, **fields}, separators=(",", ":")).encode()


def pack_value(value: bytes, session: int | None) -> bytes:
    """The data of a key's node: a line with the session that the key belongs to, if any, then the value."""
    return b"%s\n%s" % (b"" if session is None else str(session).encode(), value)


def unpack_value(data: bytes) -> tuple[bytes, int | None]:
    """The inverse of `pack_value`. `StoreFormatError`."""
    session, found, value = data.partition(b"\n")
    if not found or not (session.isdigit() or not session):
        raise StoreFormatError("ZooKeeper holds something other than kwire's keys")
    return value, int(session) if session else None


def node_name(key: str) -> str:
    """A key as the name of one node: ``/`` becomes ``:``, and bytes that are not plain become ``%xx``."""
    if key in (".", ".."):
        return key.replace(".", "%2e")
    return "".join(
        character if character in _PLAIN else ":" if character == "/" else _escaped(character) for character in key
    )


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode())


def key_of(name: str) -> str:
    """The inverse of `node_name`."""
    first, *rest = name.replace(":", "/").split("%")
    return (first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)).decode()


class Mirror:
    """All keys as of one commit. ``count``: the number of that commit; ``revision``: its transaction id (zxid)."""

    def __init__(self, count: int, revision: int, created_zxid: int, entries: dict[str, Entry]) -> None:
        self.count = count
        self.revision = revision
        self.created_zxid = created_zxid
        """The zxid of the transaction that created the store."""
        self.entries = entries

    def version(self, key: str) -> int:
        """The version of a key, or `ABSENT`."""
        entry = self.entries.get(key)
        return ABSENT if entry is None else entry.version

    def keys_of(self, session: int) -> list[str]:
        """The keys that belong to a session."""
        return [key for key, entry in self.entries.items() if entry.session == session]

    def owners(self) -> list[int]:
        """The sessions that own keys."""
        return list(dict.fromkeys(entry.session for entry in self.entries.values() if entry.session is not None))

    def apply(self, revision: int, writes: Iterable[Write]) -> list[Change]:
        """Apply the next commit's writes; returns the changes."""
        changes = []
        for key, value, session in writes:
            old = self.entries.pop(key, None)
            if value is not None:
                created = revision if old is None else old.created
                self.entries[key] = Entry(value, revision, created, session)
            elif old is None:
                continue
            changes.append(Change(key, self.entries.get(key)))
        self.count += 1
        self.revision = revision
        return changes

    def changes_to(self, newer: Mirror) -> list[Change]:
        """The changes from this state to a newer one."""
        gone = [Change(key, None) for key in self.entries if key not in newer.entries]
        return gone + [Change(key, entry) for key, entry in newer.entries.items() if self.version(key) != entry.version]
