"""``kwire restore PATH --topic TOPIC``: write the records of a table of ``kwire archive`` to a topic.

    kwire restore /archive/orders --topic orders

The topic is made if there is none, and refused if it has records. A run that was ended goes on with the same command.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from kwire.cli import connection, fail, output
from kwire.cli.actions import assignment, positive

_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire restore``."""
    parser.add_argument("path", metavar="PATH", help="the table's folder")
    parser.add_argument("--topic", metavar="TOPIC", required=True, help="the topic to write to")
    parser.add_argument(
        "--config",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a configuration of the topic, if it is made (default: retention.ms=-1, as old records would be deleted)",
    )
    parser.add_argument(
        "--replication-factor", type=positive, default=-1, metavar="N", help="of the topic, if it is made"
    )
    parser.add_argument(
        "-z", "--compression", choices=_COMPRESSIONS, default="zstd", metavar="TYPE", help=", ".join(_COMPRESSIONS)
    )
    iceberg = parser.add_argument_group("Iceberg")
    iceberg.add_argument("--catalog", metavar="NAME", help="a catalog of pyiceberg's configuration")
    iceberg.add_argument("--table", metavar="NAMESPACE.TABLE", help="the table's name, if there are several")
    output.add_arguments(parser)
    connection.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restore; the exit status."""
    from kwire.archive.errors import ArchiveError
    from kwire.archive.restoring.restore import Restored, restore
    from kwire.archive.restoring.tables import open_table
    from kwire.archive.restoring.target import Options
    from kwire.cli.connection.errors import CommandError
    from kwire.cli.connection.options import open_cluster

    options = Options(
        arguments.topic,
        arguments.config,
        arguments.replication_factor,
        _COMPRESSIONS.index(arguments.compression),
        arguments.timeout,
    )

    async def act() -> Restored:
        table = open_table(arguments.path, arguments.catalog, arguments.table)
        async with open_cluster(arguments) as cluster:
            return await restore(cluster, table, options)

    try:
        done = asyncio.run(act())
    except (ArchiveError, CommandError) as error:
        return fail(error)
    if arguments.output == "table":
        print(f"{done.records} records restored to {done.topic}")
    else:
        output.show_one(done, arguments.output)
    return 0
