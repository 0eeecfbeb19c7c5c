"""``kwire console``: serve the page until a signal comes.

    kwire console
    kwire console --listen 127.0.0.1:9021 --bootstrap-server test=broker1:9092 --profile production
    kwire console --registry http://localhost:8081
    kwire console --allow-changes

Standard output carries one line: ``kwire console ready url=URL``, whose token lets a browser in.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kwire.base.extras import missing
from kwire.cli import fail
from kwire.cli.connection import options
from kwire.cli.connection.errors import CommandError
from kwire.cli.running.children import CONSOLE_LISTEN
from kwire.cli.schemas.client import URL

if TYPE_CHECKING:
    from kwire.console.clusters import Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire console``."""
    group = parser.add_argument_group("clusters")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="[NAME=]HOST:PORT",
        action="append",
        default=[],
        help="a cluster, by brokers with commas between them; may be given more than once "
        f"(default: that of the environment or the profile in use, else {options.DEFAULT_BOOTSTRAP})",
    )
    group.add_argument(
        "--profile",
        metavar="NAME",
        action="append",
        default=[],
        help="a cluster, by settings of `kwire profile`; may be given more than once",
    )
    group.add_argument(
        "--registry",
        metavar="[NAME=]URL",
        action="append",
        default=[],
        help="decode messages by the schemas of this registry, of all clusters or of one; may be given more than once",
    )
    options.add_client_arguments(group)
    page = parser.add_argument_group("page")
    page.add_argument(
        "--listen", metavar="HOST:PORT", default=CONSOLE_LISTEN, help=f"port 0: a free one (default: {CONSOLE_LISTEN})"
    )
    page.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another name that browsers may know the page by, such as that of a proxy; may be given more than once",
    )
    page.add_argument(
        "--allow-changes", action="store_true", help="not only read: produce, create, alter, delete, seek"
    )
    page.add_argument(
        "--login",
        action="store_true",
        help="people log in with their names and passwords of the clusters (SASL), in place of a token",
    )
    page.add_argument("--tls-cert", metavar="FILE", help="certificates in PEM, for HTTPS")
    page.add_argument("--tls-key", metavar="FILE", help="their private key in PEM")
    page.add_argument(
        "--token-lifetime",
        metavar="SECONDS",
        type=_seconds,
        help="when the token expires (default: with the end of the process)",
    )


def _seconds(text: str) -> float:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if arguments.registry and (reason := missing("registry")):
        return fail(reason)
    from kwire.cli.running.web import StartFailure
    from kwire.console.server import serve

    try:
        return serve(arguments, list(targets(arguments)))
    except CommandError as error:
        return fail(error)
    except StartFailure as error:
        return fail(error, error.status)


def targets(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Iterator[Target]:
    """The clusters that the options name. `CommandError`."""
    from kwire.console.clusters import Target

    registries = dict(map(_registry, arguments.registry))
    chosen: list[tuple[str | None, str | None, str | None]] = []  # name, bootstrap, profile
    for text in arguments.bootstrap_server:
        name, equals, bootstrap = text.partition("=")
        chosen.append((name, bootstrap, None) if equals else (None, text, None))
    chosen += [(profile, None, profile) for profile in arguments.profile]
    names: set[str] = set()
    for given, bootstrap, profile in chosen or [(None, None, None)]:
        one = argparse.Namespace(**{**vars(arguments), "bootstrap_server": bootstrap, "profile": profile})
        settings = options.settings(one, environment)
        name = given or settings.bootstrap.partition(",")[0]
        if name in names:
            raise CommandError(f"two clusters are called {name}: name one with --bootstrap-server NAME=HOST:PORT")
        names.add(name)
        url = registries.pop(name, registries.get(None))
        properties = settings.properties if url is None else {**settings.properties, URL: url}
        yield Target(name, settings.bootstrap, properties, settings.timeout_s)
    for unknown in filter(None, registries):
        raise CommandError(f"--registry {unknown}=…: there is no cluster {unknown}")


def _registry(text: str) -> tuple[str | None, str]:
    """The cluster that a registry is for, None for all, and its URL."""
    name, equals, url = text.partition("=")
    return (name, url) if equals and "/" not in name else (None, text)
