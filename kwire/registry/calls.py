"""`Call`: one request, with what its query and its headers say, and the content types of the interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.registry import failures
from kwire.registry.failures import Refusal
from kwire.registry.store.names import normal
from kwire.schemas.json_text import HalfCharacter, loaded

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a request: a schema of the longest text, escaped in JSON."""
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ANSWERED: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
_TAKEN: Final = (*_ANSWERED, "application/octet-stream")
_LIMIT_MAX: Final = 2**31 - 1


class Call(NamedTuple):
    """A request. ``context``: the prefix of subjects (``:.name:``) if the path names one, else "". ``metadata``: the
    properties that the query names, by pairs of ``key`` and ``value``."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    context: str
    metadata: Mapping[str, str]

    def flag(self, name: str) -> bool:
        """A boolean of the query."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A number of the query; the default for anything else."""
        text = self.query.get(name, "")
        return min(int(text[:10]), _LIMIT_MAX) if text.isascii() and text.isdecimal() else default

    @property
    def subject(self) -> str:
        """The subject of the path."""
        return self.within(self.path["subject"])

    def within(self, subject: str) -> str:
        """A subject in the path's context, unless it has one of its own."""
        return normal(subject if subject.startswith(":.") else f"{self.context}{subject}")

    @property
    def id(self) -> int:
        """The id of the path. `Refusal`."""
        text = self.path["id"]
        if not text.isascii() or not text.isdecimal() or len(text) > 10:
            raise Refusal(404, 404, "HTTP 404 Not Found")
        return int(text)


def parsed_body(content: bytes) -> Any:
    """The JSON of a body; None for none. `Refusal`."""
    if not content:
        return None
    try:
        return loaded(content)
    except RecursionError:
        raise failures.invalid_schema("The body is nested too deeply") from None
    except HalfCharacter as error:
        raise failures.invalid_schema(f"The body is no text: {error}") from None
    except ValueError as error:
        raise Refusal(400, 400, f"The body is not JSON: {error}") from None


def check_content_type(header: str | None) -> None:
    """`Refusal` for a body of another type than the interface takes."""
    if (header or CONTENT_TYPE).partition(";")[0].strip().lower() not in _TAKEN:
        raise Refusal(415, 415, "HTTP 415 Unsupported Media Type")


def chosen_type(accept: str | None) -> str:
    """The content type of an answer, by what the client accepts. `Refusal` if it accepts none."""
    wanted = []
    for position, each in enumerate((accept or "*/*").split(",")):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        wanted.append((-_quality(parameters), position, name))
    for quality, _, name in sorted(wanted):
        if not quality:
            break
        for type in _ANSWERED:
            if name in (type, "*/*", "application/*"):
                return type
    raise Refusal(406, 406, "HTTP 406 Not Acceptable")


def _quality(parameters: list[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0
