"""``kwire profile list|set|use|delete``: settings of connections by name.

kwire profile set production bootstrap.servers=broker1:9093 security.protocol=SSL
kwire profile use production
kwire topic list
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from kwire.cli import actions, fail, output
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.options import profile_file, read_profiles

ACTIONS: Final = {
    "list": "list profiles",
    "set": "set properties of a profile, which is created if there is none; an empty value removes one",
    "use": "use a profile for all commands that name none; without a name, no profile",
    "delete": "delete a profile",
}
_SECRET: Final = ("password", "secret", "jaas", ".key", ".pem", "user.info")


class ProfileRow(NamedTuple):
    """A profile. ``properties``: without passwords."""

    name: str
    used: bool
    properties: dict[str, str]


class UsedProfile(NamedTuple):
    """The profile of commands that name none; None if there is none."""

    profile: str | None


class DeletedProfile(NamedTuple):
    """A profile of ``delete``."""

    name: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire profile``."""
    group = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {name: group.add_parser(name, help=text, description=text) for name, text in ACTIONS.items()}
    for each in parsers.values():
        output.add_arguments(each)
    parsers["set"].add_argument("name", metavar="PROFILE")
    parsers["set"].add_argument("properties", metavar="NAME=VALUE", nargs="+", type=actions.assignment)
    parsers["use"].add_argument("name", metavar="PROFILE", nargs="?")
    parsers["delete"].add_argument("name", metavar="PROFILE")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    file = profile_file()
    try:
        content = read_profiles(file)
        profiles = content.setdefault("profiles", {})
        if arguments.action == "list":
            output.show(_rows(content), arguments.output)
            return 0
        changed: ProfileRow | UsedProfile | DeletedProfile
        if arguments.action == "set":
            profile = profiles.setdefault(arguments.name, {})
            profile.update(arguments.properties)
            profiles[arguments.name] = {name: value for name, value in profile.items() if value != ""}
            [changed] = [row for row in _rows(content) if row.name == arguments.name]
        elif arguments.name is not None and arguments.name not in profiles:
            raise CommandError(f"{file}: there is no profile {arguments.name}")
        elif arguments.action == "use":
            content["profile"] = arguments.name
            changed = UsedProfile(arguments.name)
        else:
            changed = DeletedProfile(arguments.name)
            del profiles[arguments.name]
            if content.get("profile") == arguments.name:
                content["profile"] = None
        _write(file, content)
        output.show_one_done(changed, arguments.output, None)
    except CommandError as error:
        return fail(error)
    except OSError as error:
        return fail(f"{file}: {error.strerror}")
    return 0


def _rows(content: dict[str, Any]) -> list[ProfileRow]:
    return [
        ProfileRow(name, name == content.get("profile"), {key: _shown(key, value) for key, value in profile.items()})
        for name, profile in sorted(content["profiles"].items())
    ]


def _shown(name: str, value: object) -> str:
    return "[hidden]" if any(word in name for word in _SECRET) and not name.endswith(".location") else str(value)


def _write(file: Path, content: dict[str, Any]) -> None:
    """Replace the file; only its owner may read it."""
    lines = [f"profile = {json.dumps(content['profile'])}", ""] if content.get("profile") else []
    for name, profile in content["profiles"].items():
        lines.append(f"[profiles.{json.dumps(name)}]")
        lines += [f"{json.dumps(key)} = {json.dumps(str(value))}" for key, value in profile.items()]
        lines.append("")
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
    temporary.replace(file)
