"""Commands of the prompt, which begin with a backslash."""

from __future__ import annotations

import argparse
from typing import Final

from kwire.cli import print_table
from kwire.sql.errors import SqlError
from kwire.sql.results.lines import FORMATS
from kwire.sql.session import Session, quoted
from kwire.sql.topics.spans import to_json

COMMANDS: Final = {
    "\\d": "\\d lists topics; \\d TOPIC shows the columns of one",
    "\\o": f"\\o FORMAT sets how rows are shown: {', '.join(FORMATS)}",
    "\\offsets": "\\offsets prints the offsets that the last statements read, for --as-of",
    "\\?": "\\? shows this",
    "\\q": "\\q ends (so does Ctrl-D)",
}
"""Command -> what it does."""


def obey(session: Session, arguments: argparse.Namespace, line: str) -> bool:
    """Do what a line says; whether the prompt goes on. `SqlError`, `ReadError`, `CommandError`."""
    command, _, rest = line.strip().rstrip(";").partition(" ")
    rest = rest.strip()
    if command == "\\q":
        return False
    if command == "\\d":
        _describe(session, rest)
    elif command == "\\o":
        _set_format(arguments, rest)
    elif command == "\\offsets":
        print(to_json(session.snapshot))
    elif command == "\\?":
        for text in COMMANDS.values():
            print(text)
        print("statements end with ; and may have several lines; Ctrl-C ends a query")
    else:
        raise SqlError(f"{command}: there is no such command; \\? lists them")
    return True


def _describe(session: Session, topic: str) -> None:
    if not topic:
        session.renew()
        for each in session.topics():
            print(each)
        return
    name = topic if topic.startswith('"') else quoted(topic)
    (statement,) = session.statements(f"describe {name}")
    session.open_topics(statement)
    rows = session.connection.execute(statement.text).fetchall()
    print_table(("COLUMN", "TYPE"), [(str(row[0]), str(row[1])) for row in rows])


def _set_format(arguments: argparse.Namespace, form: str) -> None:
    if form not in FORMATS:
        raise SqlError(f"\\o FORMAT: the format is {', '.join(FORMATS)}")
    arguments.output = form
