"""The page of commands: what each does, its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from kwire.cli import COMMANDS, command_parser
from tools.reference.markdown import code, page, prose, table

_UNNAMED: Final = argparse.SUPPRESS


def commands() -> str:
    """The page."""
    return page(
        "Commands",
        "Every command and its arguments. `--help` prints the same. [COMMAND_LINE.md](../COMMAND_LINE.md) is the "
        "guide.",
        table(("command", "what it does"), ([f"[kwire {name}](#kwire-{name})", COMMANDS[name]] for name in COMMANDS)),
        *(part for name in COMMANDS for part in _command(name)),
    )


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a command's own commands (`kwire topic create`), by name."""
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    yield f"## kwire {name}"
    yield _sentence(COMMANDS[name])
    yield from _arguments(parser)
    summaries = _summaries(parser)
    for action, subparser in actions(parser).items():
        yield f"### kwire {name} {action}"
        yield _sentence(subparser.description or summaries.get(action, ""))
        yield from _arguments(subparser)


def _summaries(parser: argparse.ArgumentParser) -> dict[str, str]:
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return {each.dest: each.help or "" for group in found for each in group._choices_actions}


def _sentence(text: str) -> str:
    text = prose(" ".join(text.split()))
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The tables of arguments and options; those without a word of help are not for users."""
    formatter = argparse.HelpFormatter("kwire")
    shown = [
        each
        for each in parser._actions
        if each.help != _UNNAMED and not isinstance(each, argparse._HelpAction | argparse._SubParsersAction)
    ]
    for heading, chosen in (
        ("argument", [each for each in shown if not each.option_strings]),
        ("option", [each for each in shown if each.option_strings]),
    ):
        if chosen:
            yield table(
                (heading, "meaning"),
                ([_names(each), _help(formatter, each)] for each in chosen),
            )


def _help(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    return prose(" ".join(formatter._expand_help(action).split())) if action.help else ""


def _names(action: argparse.Action) -> str:
    """How an argument is written, with its value."""
    if not action.option_strings:
        return code(_value(action) or action.dest)
    names = ", ".join(action.option_strings)
    value = "" if action.nargs == 0 else _value(action)
    return code(f"{names} {value}".strip())


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        text = str(action.metavar)
    elif action.choices is not None:
        text = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        text = action.dest.upper()
    if action.nargs in ("*", "+"):
        return f"{text} ..."
    return f"[{text}]" if action.nargs == "?" else text
