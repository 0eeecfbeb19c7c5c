"""`Call`: what a request of the page asks, with its parameters checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.console.failures import Refusal, bad_request

if TYPE_CHECKING:
    from kwire.console.records.decoding import Decoder


class Call(NamedTuple):
    """A request. ``path``: the parts of its path by name; ``body``: its JSON, None without one. ``timeout_s``: for what
    the cluster does itself, and for reading messages to show. ``decoder``: for messages, if the cluster has a
    registry."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    allow_changes: bool
    timeout_s: float
    decoder: Decoder | None = None

    def check_changes(self) -> None:
        """`Refusal` if the console only reads."""
        if not self.allow_changes:
            raise Refusal(403, "read_only", "this console only reads: start it with --allow-changes")

    @property
    def executes(self) -> bool:
        """Whether a request that may also show what it would change (``execute`` in its body) changes it."""
        return isinstance(self.body, dict) and bool(self.body.get("execute"))

    @property
    def timeout_ms(self) -> int:
        """For the requests that have a timeout."""
        return round(self.timeout_s * 1000)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number of the query. `Refusal` if it is none between ``low`` and ``high``."""
        text = self.query.get(name)
        if text is None or text == "":
            return default
        if not text.removeprefix("-").isdecimal() or len(text) > 20 or not low <= int(text) <= high:
            raise bad_request(f"{name}={text}: not a number from {low} to {high}")
        return int(text)

    def field(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """A field of the body. `Refusal` if it has another type, or is missing without a default."""
        if not isinstance(self.body, dict):
            raise bad_request("the body is not a JSON object")
        value = self.body.get(name, default)
        if value is ...:
            raise bad_request(f"the field {name} is missing")
        if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise bad_request(f"the field {name} has the wrong type")
        return value
