"""What a search looks for. Batches without the bytes of its words are passed over as a whole, without their records.

Regular expressions are RE2's: they take linear time, whatever the pattern and the messages are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire.cli.records.columns import Columns
from kwire.cli.records.filters import Filter, Finds, by_header, by_key, by_value, json_filter
from kwire.console.calls import Call
from kwire.console.failures import bad_request


class Search(NamedTuple):
    """``words``: bytes that every batch with a match has; ``filters`` must all hold for a record."""

    words: Sequence[bytes]
    filters: Sequence[Filter]

    def may_match(self, body: bytes) -> bool:
        """Whether the decompressed records of a batch can have a match."""
        return all(word in body for word in self.words)

    def matches(self, columns: Columns) -> Columns:
        """The records of a batch that match."""
        for each in self.filters:
            if not len(columns):
                break
            passing = each(columns)
            if len(passing) < len(columns):
                columns = columns.take(passing)
        return columns


def search_of(call: Call) -> Search:
    """What the query looks for: ``key``, ``value``, ``header`` (``NAME`` or ``NAME=TEXT``), ``json``; with ``regex=1``
    the texts are regular expressions. `Refusal`."""
    is_regex = call.query.get("regex", "0") not in ("", "0", "false")
    words: list[bytes] = []
    filters: list[Filter] = []

    def finds(text: str) -> Finds:
        if is_regex:
            return _regex(text)
        word = text.encode("utf-8", "surrogateescape")
        words.append(word)
        return lambda content: word in content

    if text := call.query.get("key"):
        filters.append(by_key(finds(text)))
    if text := call.query.get("value"):
        filters.append(by_value(finds(text)))
    if text := call.query.get("header"):
        name, equals, content = text.partition("=")
        words.append(name.encode("utf-8", "surrogateescape"))
        filters.append(by_header(name, finds(content) if equals else None))
    if text := call.query.get("json"):
        filters.append(_json_filter(text))
    return Search([word for word in words if word], filters)


def _regex(text: str) -> Finds:
    import re2  # type: ignore[import-untyped]  # slow to load, and few searches need it

    options = re2.Options()
    options.log_errors = False
    try:
        search: Finds = re2.compile(text.encode("utf-8", "surrogateescape"), options).search
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be parsed"
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise bad_request(f"{text!r} is not a regular expression of RE2: {words}") from None
    return search


def _json_filter(text: str) -> Filter:
    if "~" in text:
        raise bad_request(f"json={text}: comparisons are =, !=, <, <=, > and >=")
    try:
        return json_filter(text)
    except ValueError as error:
        raise bad_request(f"json: {error}") from None
