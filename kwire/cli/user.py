"""``kwire user add|delete|list``: users who log in with SCRAM, of a running cluster or one that is not running.

With ``--bootstrap-server``, requests go to a broker, of Apache Kafka as well. Otherwise the credentials are written to
the metadata store that the configuration names, as with ``kwire start``: before the first start, or while no broker
runs. The password is read from a file, a prompt or standard input; a password on the command line can be read by other
users of the host.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.cli import configuration, fail, fail_with_file
from kwire.cli.running import client as running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kwire.cli.running.users import RunningUsers
    from kwire.server.users import Users

MECHANISM_NAMES: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 4096


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
    for each in (add, delete, actions.add_parser("list", help="list the users and their mechanisms")):
        running.add_arguments(each)
        configuration.add_store_arguments(each)


def run(arguments: argparse.Namespace) -> int:
    """Run the action and print one line per credential."""
    from kwire.base.config import ConfigError
    from kwire.server.errors import StartError

    try:
        running.check_arguments(arguments)
        password = _password(arguments) if arguments.action == "add" else ""
        return asyncio.run(_run(arguments, password))
    except UnicodeDecodeError:
        return fail("the password is not UTF-8")
    except (ConfigError, StartError, running.ClusterError, ValueError) as error:
        return fail(error)
    except OSError as error:
        return fail_with_file(error)
    except (EOFError, KeyboardInterrupt):
        return fail("no password was given")


async def _run(arguments: argparse.Namespace, password: str) -> int:
    from kwire.security.scram_credentials import MECHANISMS

    if arguments.action == "list":
        async with _users(arguments) as users:
            for user in await users.all():
                print(f"{user.name} {user.mechanism.mechanism_name} iterations={user.iterations}")
        return 0
    mechanisms = [MECHANISMS[name] for name in dict.fromkeys(arguments.mechanisms or MECHANISM_NAMES)]
    async with _users(arguments) as users:
        if arguments.action == "add":
            await users.put(arguments.name, mechanisms, password, arguments.iterations)
        else:
            mechanisms = await users.delete(arguments.name, mechanisms)
    done = "added" if arguments.action == "add" else "deleted"
    for mechanism in mechanisms:
        print(f"kwire {done} user={arguments.name} mechanism={mechanism.mechanism_name}")
    return 0


@asynccontextmanager
async def _users(arguments: argparse.Namespace) -> AsyncIterator[Users | RunningUsers]:
    """The users that the command is about. `ClusterError`, StartError, ConfigError, OSError."""
    from kwire.base.doors import Doors

    doors = Doors()
    if arguments.bootstrap_server is not None:
        from kwire.cli.running.users import RunningUsers

        address, timeout_s = arguments.bootstrap_server, arguments.timeout
        async with running.cluster_client(address, arguments.command_config, timeout_s) as client:
            yield RunningUsers(client, doors.random.randbytes)
        return
    from kwire.server.users import users_of

    async with users_of(configuration.load(arguments), doors, create=arguments.action == "add") as users:
        yield users


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
