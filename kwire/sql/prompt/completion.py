"""Completion of topics, columns, functions and words of SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kwire.sql.prompt.commands import COMMANDS
from kwire.sql.session import Session, quoted
from kwire.sql.topics.columns import SHOWN

_WORD: Final = re.compile(r'(?:"[^"]*|\\?[\w.$-]*)\Z')
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")
_TOPICS_AFTER: Final = re.compile(
    r'(?:\b(?:from|join|describe|summarize|table)|,|\\d)\s+(?:"[^"]*|[\w.$-]*)\Z', re.IGNORECASE
)


class SqlCompleter(Completer):
    """Topics come first where a table is expected. What cannot be looked up is not completed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        rows = session.connection.execute("select keyword_name, keyword_category from duckdb_keywords()").fetchall()
        self._reserved = {str(word) for word, category in rows if category == "reserved"}
        functions = session.connection.execute("select distinct function_name from duckdb_functions()").fetchall()
        self._columns = [quoted(each) if each in self._reserved else each for each in SHOWN]
        self._words = sorted({str(word).upper() for word, _ in rows})
        self._functions = sorted(str(name) for (name,) in functions if _PLAIN.match(str(name)))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What the word before the cursor may become."""
        before = document.text_before_cursor
        found = _WORD.search(before)
        word = found[0] if found else ""
        if word.startswith("\\"):
            yield from _starting(word, list(COMMANDS), "command")
            return
        expects_topic = _TOPICS_AFTER.search(before) is not None
        if not word and not expects_topic:
            return
        yield from self._topics(word)
        if not word.startswith('"') and not expects_topic:
            yield from _starting(word, self._columns, "column")
            yield from _starting(word, self._words, "")
            yield from _starting(word, self._functions, "function")
        elif word.startswith('"'):
            yield from _starting(word, [quoted(each) for each in SHOWN], "column")

    def _topics(self, word: str) -> Iterable[Completion]:
        try:
            topics = self._session.topics()
        except Exception:  # the cluster is away: the query says so
            return
        yield from _starting(word, [self._identifier(each) for each in topics], "topic", word.strip('"'))

    def _identifier(self, topic: str) -> str:
        return topic if _PLAIN.match(topic) and topic not in self._reserved else quoted(topic)


def _starting(word: str, candidates: Sequence[str], kind: str, plain: str | None = None) -> Iterable[Completion]:
    start = (word if plain is None else plain).lower()
    for each in candidates:
        if each.lower().lstrip('"').startswith(start.lstrip('"')):
            yield Completion(each, start_position=-len(word), display_meta=kind)
