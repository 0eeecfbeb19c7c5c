"""What clients of registries have been told, and what is wrong with what the registries have in the end.

What lives elsewhere: the clients, and who is killed (`campaigns.schemas.registry_kills`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Acknowledged(NamedTuple):
    """A version of which a registry has said that it is there."""

    id: int
    text: str


class Model:
    """What has been acknowledged, by all clients together. Each subject belongs to one of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._versions: dict[str, list[Acknowledged]] = {}
        self._deleted: set[str] = set()
        self._lock = threading.Lock()

    @property
    def acknowledged(self) -> int:
        """How many versions."""
        return self.counts["versions"]

    def registered(self, subject: str, id: int, text: str) -> int:
        """A registry has given a new version of a subject; its number."""
        with self._lock:
            versions = self._versions.setdefault(subject, [])
            versions.append(Acknowledged(id, text))
            self.counts["versions"] += 1
            return len(versions)

    def deleted(self, subject: str) -> None:
        """A registry has deleted a subject, softly."""
        with self._lock:
            self._deleted.add(subject)
            self.counts["deletions"] += 1

    def count(self, what: str) -> None:
        """Something has happened once more."""
        with self._lock:
            self.counts[what] += 1

    def violated(self, what: str) -> None:
        """A registry has said what it must not."""
        with self._lock:
            self.violations.append(what)

    def expected(self, *, deleted: bool) -> list[dict[str, Any]]:
        """All versions, as ``GET /schemas`` has them."""
        return [
            {"subject": subject, "version": number, "id": each.id, "schema": each.text}
            for subject in sorted(self._versions)
            if deleted or subject not in self._deleted
            for number, each in enumerate(self._versions[subject], 1)
        ]

    def differences(self, everything: Sequence[Mapping[str, Any]], live: Sequence[Mapping[str, Any]]) -> list[str]:
        """What is lost, there twice or changed in a registry's versions: all of them, and those not deleted."""
        found = []
        for shown, deleted in ((everything, True), (live, False)):
            expected = {_place(each): each for each in self.expected(deleted=deleted)}
            there = {_place(each): each for each in shown}
            found += [f"lost: {expected[place]}" for place in expected if place not in there]
            found += [f"never acknowledged: {there[place]}" for place in there if place not in expected]
            both = ((expected[place], there[place]) for place in expected if place in there)
            found += [f"acknowledged {wanted}, there is {real}" for wanted, real in both if wanted != real]
            if len(there) != len(shown):
                found.append(f"{len(shown) - len(there)} versions are there twice")
        return found + _not_unique(everything)


def _place(version: Mapping[str, Any]) -> tuple[str, int]:
    return version["subject"], version["version"]


def _not_unique(versions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Ids that several schemas have, and schemas that have several ids."""
    texts: dict[int, set[str]] = {}
    ids: dict[str, set[int]] = {}
    for each in versions:
        texts.setdefault(each["id"], set()).add(each["schema"])
        ids.setdefault(each["schema"], set()).add(each["id"])
    found = [f"id {id} has several schemas: {sorted(each)}" for id, each in texts.items() if len(each) > 1]
    return found + [f"{text} has several ids: {sorted(each)}" for text, each in ids.items() if len(each) > 1]
