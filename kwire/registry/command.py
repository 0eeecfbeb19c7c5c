"""``kwire registry``: serve schemas until a signal comes.

    kwire registry --bootstrap-server localhost:9092
    kwire registry --listen 0.0.0.0:8081 --advertise registry1:8081 --users users.properties

Standard output carries one line: ``kwire registry ready url=URL``.
"""

from __future__ import annotations

import argparse

from kwire.cli import connection, fail
from kwire.cli.connection.errors import CommandError
from kwire.cli.running.children import REGISTRY_LISTEN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire registry``."""
    serving = parser.add_argument_group("serving")
    serving.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=REGISTRY_LISTEN,
        help=f"port 0: a free one (default: {REGISTRY_LISTEN})",
    )
    serving.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="how other instances reach this one (default: the address of --listen, or this host's name)",
    )
    serving.add_argument("--tls-cert", metavar="FILE", help="certificates in PEM, for HTTPS")
    serving.add_argument("--tls-key", metavar="FILE", help="their private key in PEM")
    serving.add_argument(
        "--tls-ca",
        metavar="FILE",
        help="certificates in PEM by which this instance trusts others (default: --tls-cert, and the system's)",
    )
    serving.add_argument(
        "--users", metavar="FILE", help="who may ask, with basic authentication: a line NAME: PASSWORD for each"
    )
    storing = parser.add_argument_group("storing")
    storing.add_argument(
        "--topic", metavar="NAME", default="_schemas", help="the topic of the schemas (default: _schemas)"
    )
    storing.add_argument(
        "--group",
        metavar="NAME",
        default="schema-registry",
        help="the group by which instances elect their leader (default: schema-registry)",
    )
    connection.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from kwire.cli.running.web import StartFailure
    from kwire.registry.server import serve

    try:
        return serve(arguments)
    except CommandError as error:
        return fail(error)
    except StartFailure as error:
        return fail(error, error.status)
