"""``kwire completion bash|zsh|fish``: a script that completes commands, options, topics and groups.

    source <(kwire completion bash)

The script calls ``kwire __complete -- WORDS``, which prints a candidate a line for the last word. Topics and groups are
asked of the cluster that the words or the profile name; one that cannot be reached has none.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Sequence
from typing import Final

BASH: Final = """_kwire() {
    local IFS=$'\\n'
    COMPREPLY=($(kwire __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _kwire kwire
"""
ZSH: Final = """#compdef kwire
_kwire() {
    local -a candidates
    candidates=("${(@f)$(kwire __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- $candidates
}
compdef _kwire kwire
"""
FISH: Final = """complete -c kwire -f -a '(kwire __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
TIMEOUT_S: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire completion``."""
    parser.add_argument("shell", choices=SCRIPTS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(SCRIPTS[arguments.shell], end="")
    return 0


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word."""
    from kwire.cli import COMMANDS, command_parser

    *before, prefix = words or [""]
    if not before:
        return _print(COMMANDS, prefix)
    if before[0] not in COMMANDS:
        return 0
    parser = command_parser(before[0])
    for word in before[1:]:
        choices = _choices(parser)
        if word in choices:
            parser = choices[word]
    last = before[-1]
    option = next((each for each in parser._actions if last in each.option_strings), None)
    if option is not None and option.nargs != 0:
        return _print(_values(option, before, parser), prefix)
    if prefix.startswith("-"):
        return _print(
            [name for each in parser._actions for name in each.option_strings if name.startswith("--")], prefix
        )
    if _choices(parser):
        return _print(_choices(parser), prefix)
    positional = [each for each in parser._actions if not each.option_strings]
    return _print([value for each in positional for value in _values(each, before, parser)], prefix)


def _print(candidates: Iterable[object], prefix: str) -> int:
    for each in candidates:
        if str(each).startswith(prefix):
            print(each)
    return 0


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            return dict(each.choices)
    return {}


def _values(action: argparse.Action, words: Sequence[str], parser: argparse.ArgumentParser) -> Iterable[object]:
    """The values that an option or an argument may have."""
    if action.choices is not None:
        return action.choices
    known = next((name for name in ("TOPIC", "GROUP") if action.metavar == name), None)
    if known is None and action.metavar == "NAME" and words[0] == "topic" and "create" not in words:
        known = "TOPIC"
    return [] if known is None else _names(known, words, parser)


def _names(kind: str, words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The names of topics or groups of the cluster that the words name."""
    import asyncio

    from kwire.cli.connection.errors import CommandError
    from kwire.cli.connection.options import add_arguments, open_cluster

    options = argparse.ArgumentParser(add_help=False)
    add_arguments(options)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit, CommandError):
        arguments, _ = options.parse_known_args(list(words))
        arguments.timeout = min(arguments.timeout, TIMEOUT_S)

        async def ask() -> list[str]:
            async with open_cluster(arguments) as cluster:
                if kind == "TOPIC":
                    return sorted(each.name for each in (await cluster.metadata()).topics if not each.is_internal)
                from kwire.cli.groups.description import list_groups

                return [each.group for each in await list_groups(cluster, sorted(await cluster.nodes()), [], [])]

        return asyncio.run(ask())
    return []


if __name__ == "__main__":
    sys.exit(complete(sys.argv[1:]))
