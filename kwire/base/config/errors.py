"""The one exception of configuration. Its text is one line for people."""

from __future__ import annotations


class ConfigError(Exception):
    """A property whose value is not accepted, or a property that kwire refuses by name.

    ``str(error)`` is one line that names the property, the value (never a password) and what is allowed.
    """

    __slots__ = ("name", "reason", "value")

    def __init__(self, name: str, value: str | None, reason: str) -> None:
        super().__init__(name, value, reason)
        self.name = name
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        setting = self.name if self.value is None else f"{self.name}={self.value}"
        return f"{setting}: {self.reason}".replace("\n", "\\n").replace("\r", "\\r")
