"""``kwire user add|delete|list``: users who log in with SCRAM, of a running cluster or one that is not running.

If a cluster is named (``-b``, ``-X``, the environment, a profile), requests go to a broker, of Apache Kafka as well.
Otherwise the credentials are written to the metadata store that the configuration names, as with ``kwire start``:
before the first start, or while no broker runs. The password is read from a file, a prompt or standard input; a
password on the command line can be read by other users of the host.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cli import fail, fail_with_file, output
from kwire.cli.running import place

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cli.connection.cluster import Cluster
    from kwire.cli.running.users import RunningUsers
    from kwire.server.users import Users

MECHANISM_NAMES: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 4096


class UserRow(NamedTuple):
    """A credential."""

    user: str
    mechanism: str
    iterations: int


class DeletedUser(NamedTuple):
    """A credential of ``delete``."""

    user: str
    mechanism: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire user``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a user, or change the password of one")
    add.add_argument("name", metavar="NAME", help="the user's name")
    add.add_argument("--password-file", metavar="FILE", help="read the password from a file (-: standard input)")
    add.add_argument("--password", metavar="TEXT", help="the password itself; others on this host can see it")
    add.add_argument(
        "--iterations", metavar="N", type=int, default=ITERATIONS, help="4096 (the default) to 16384, to slow guessing"
    )
    delete = actions.add_parser("delete", help="delete a user's credentials")
    delete.add_argument("name", metavar="NAME", help="the user's name")
    for each in (add, delete):
        text = "only this mechanism (default: both); may be given twice"
        each.add_argument("--mechanism", action="append", choices=MECHANISM_NAMES, dest="mechanisms", help=text)
    listed = actions.add_parser("list", help="list the users and their mechanisms")
    for each in (add, delete, listed):
        output.add_arguments(each)
        place.add_arguments(each)


def run(arguments: argparse.Namespace) -> int:
    """Run the action and print one line per credential."""
    try:
        password = _password(arguments) if arguments.action == "add" else ""
    except UnicodeDecodeError:
        return fail("the password is not UTF-8")
    except OSError as error:
        return fail_with_file(error)
    except (EOFError, KeyboardInterrupt):
        return fail("no password was given")
    return place.run(partial(_run, password), arguments)


async def _run(password: str, arguments: argparse.Namespace) -> int:
    from kwire.security.scram_credentials import MECHANISMS

    if arguments.action == "list":
        async with place.opened(arguments, _in_cluster, _in_store) as users:
            rows = [UserRow(each.name, each.mechanism.mechanism_name, each.iterations) for each in await users.all()]
        if arguments.output != "table":
            output.show(rows, arguments.output)
            return 0
        for row in rows:
            print(f"{row.user} {row.mechanism} iterations={row.iterations}")
        return 0
    mechanisms = [MECHANISMS[name] for name in dict.fromkeys(arguments.mechanisms or MECHANISM_NAMES)]
    async with place.opened(arguments, _in_cluster, _in_store) as users:
        if arguments.action == "add":
            await users.put(arguments.name, mechanisms, password, arguments.iterations)
        else:
            mechanisms = await users.delete(arguments.name, mechanisms)
    names = [each.mechanism_name for each in mechanisms]
    changed: list[UserRow | DeletedUser]
    if arguments.action == "add":
        done, changed = "added", [UserRow(arguments.name, name, arguments.iterations) for name in names]
    else:
        done, changed = "deleted", [DeletedUser(arguments.name, name) for name in names]
    lines = (f"kwire {done} user={each.user} mechanism={each.mechanism}" for each in changed)
    output.show_done(changed, arguments.output, lines)
    return 0


def _in_cluster(cluster: Cluster) -> RunningUsers:
    from kwire.base.doors import Doors
    from kwire.cli.running.users import RunningUsers

    return RunningUsers(cluster, Doors().random.randbytes)


def _in_store(config: KafkaConfig, doors: Doors, create: bool) -> AbstractAsyncContextManager[Users]:
    from kwire.server.users import users_of

    return users_of(config, doors, create=create)


def _password(arguments: argparse.Namespace) -> str:
    """The password, without the end of its line. OSError, UnicodeDecodeError, EOFError."""
    if arguments.password is not None:
        return str(arguments.password)
    path = arguments.password_file
    if path not in (None, "-"):
        return _without_end(Path(path).read_bytes())
    if path is None and sys.stdin.isatty():
        password = getpass(f"Password of {arguments.name}: ")
        if getpass("Again: ") != password:
            raise OSError("the passwords differ")
        return password
    return _without_end(sys.stdin.buffer.readline())


def _without_end(line: bytes) -> str:
    return line.decode().removesuffix("\n").removesuffix("\r")
