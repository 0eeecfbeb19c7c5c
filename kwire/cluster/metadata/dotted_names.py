"""`DottedNames`: finds topics whose names collide, whatever the number of topics.

Names that differ only in that one has a dot where the other has an underscore would share metric names, so Kafka
refuses the second one. What lives elsewhere: the refusal (`kwire.cluster.controller.controller`).
"""

from __future__ import annotations

from collections.abc import Container


def collision_key(name: str) -> str:
    """Names with the same key collide."""
    return name.replace(".", "_")


class DottedNames:
    """The names of topics that have a dot, by their key. A name without a dot is its own key and need not be kept.

    As in Kafka, two topics of one request are not compared with each other, so several names may have one key.
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, name: str) -> None:
        """A topic has been created."""
        if "." in name:
            self._names.setdefault(collision_key(name), {})[name] = None

    def discard(self, name: str) -> None:
        """A topic has been deleted."""
        key = collision_key(name)
        names = self._names.get(key)
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._names[key]

    def collision(self, name: str, topics: Container[str], requested: Container[str]) -> str | None:
        """A topic, one of all ``topics`` but for those ``requested``, whose name collides with a new name; None if
        there is none."""
        key = collision_key(name)
        found = next((each for each in self._names.get(key, ()) if each not in requested), None)
        if found is None and key in topics and key not in requested:
            return key
        return found


__all__ = ["DottedNames", "collision_key"]
