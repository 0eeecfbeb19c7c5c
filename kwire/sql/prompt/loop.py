"""The prompt: statements are read, answered, and kept in the history."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from kwire.arrow.errors import ReadError
from kwire.cli import fail, fail_with_file
from kwire.cli.connection.errors import CommandError
from kwire.sql.errors import SqlError
from kwire.sql.prompt.commands import obey
from kwire.sql.prompt.completion import SqlCompleter
from kwire.sql.session import Session

Answer = Callable[[Session, argparse.Namespace, str], None]

_PROMPT: Final = "kwire> "
_MORE: Final = "   ..> "


def prompt(session: Session, arguments: argparse.Namespace, answer: Answer, **terminal: Any) -> int:
    """Answer statements until the input ends; the exit status. ``answer`` runs statements and shows their rows;
    ``terminal``: input and output of prompt_toolkit."""
    print(f"Topics of {session.source.where}. Statements end with ;  \\? shows commands.")
    lines: PromptSession[str] = PromptSession(
        history=history(),
        completer=ThreadedCompleter(SqlCompleter(session)),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=lambda *_: _MORE,
        **terminal,
    )
    while True:
        try:
            text = lines.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if text.strip() and not _answered(session, arguments, answer, text):
            return 0


def is_complete(text: str) -> bool:
    """Whether Enter ends what is typed: an empty line, a command, or statements with ``;`` behind them."""
    stripped = text.strip()
    return not stripped or stripped.startswith("\\") or stripped.endswith(";")


def history(environment: Mapping[str, str] = os.environ) -> History:
    """What was typed before; only of this session if there is no place for it."""
    state = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", ""), ".local", "state")
    path = Path(state) / "kwire" / "sql_history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _answered(session: Session, arguments: argparse.Namespace, answer: Answer, text: str) -> bool:
    """Whether the prompt goes on; failures are a line."""
    try:
        if text.lstrip().startswith("\\"):
            return obey(session, arguments, text)
        session.renew()
        answer(session, arguments, text)
    except (SqlError, ReadError, CommandError) as error:
        fail(error)
    except KeyboardInterrupt:
        fail("interrupted")
    except OSError as error:
        fail_with_file(error)
    return True
