"""``kwire adopt DIR``: adopt a data directory written by Apache Kafka.

The topics in it are registered, with their topic ids, in the metadata store that is created in the directory; the logs
stay as they are. From Kafka's metadata log come the configurations of topics, brokers, groups and client metrics, ACLs,
SCRAM users, quotas and delegation tokens. Afterwards ``kwire start --config FILE --data-dir DIR`` serves them. Kafka
must not run on the directory.

``--config`` names the configuration with which kwire will run, which may be Kafka's ``server.properties``. If it would
open to all what was not, nothing is adopted, unless ``--without-security`` accepts that.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cli import configuration, fail, output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.server.adoption.adopt import Adopted

NAMES_MAX: Final = 10
"""How many names are printed of each kind."""


class AdoptedRow(NamedTuple):
    """What was taken of a directory. ``metadata_end``: the end of Kafka's metadata, None if that had been taken before;
    ``taken``: how much of each kind; ``left_out``: what was not taken, and why."""

    directory: str
    topics: int
    partitions: int
    bytes: int
    metadata_end: int | None
    taken: dict[str, int]
    left_out: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire adopt``."""
    parser.add_argument("data_dir", metavar="DIR", help="an entry of Kafka's log.dirs")
    text = "the configuration with which kwire will run: a server.properties file, as for Kafka"
    parser.add_argument("--config", metavar="FILE", help=text)
    configuration.add_set_argument(parser)
    text = "leave out ACLs, users and tokens, and accept that the cluster may become open to all"
    parser.add_argument("--without-security", action="store_true", help=text)
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Inspect the directory, adopt what is in it and print what was taken."""
    from kwire.base.config import ConfigError
    from kwire.base.doors import Doors
    from kwire.log.common.log_dirs import LogDirectoryError
    from kwire.server.adoption.adopt import adopt
    from kwire.server.errors import StartError

    try:
        config = configuration.load(arguments)
        adopted = asyncio.run(adopt(config, Doors(), without_security=arguments.without_security))
    except (LogDirectoryError, StartError, ConfigError) as error:
        return fail(error)
    except OSError as error:
        return fail(f"{error.filename or arguments.data_dir}: {error.strerror or error}")
    if arguments.output == "table":
        _tell(adopted)
    else:
        output.show_one(_row(adopted), arguments.output)
    return 0


def _row(adopted: Adopted) -> AdoptedRow:
    found, metadata, taken = adopted.found, adopted.metadata, adopted.taken
    return AdoptedRow(
        directory=found.path,
        topics=len(adopted.topics),
        partitions=sum(partition.topic in adopted.topics for partition in found.partitions),
        bytes=sum(partition.size for partition in found.partitions),
        metadata_end=None if metadata is None else metadata.end_offset,
        taken={kind: taken.counts[kind] for kind in taken.names},
        left_out=[str(each) for each in (*found.skipped, *taken.left_out)],
    )


def _tell(adopted: Adopted) -> None:
    found, metadata, taken = adopted.found, adopted.metadata, adopted.taken
    for line in [*found.skipped, *taken.left_out]:
        print(f"left out: {line}", file=sys.stderr)
    if metadata is not None and taken.names:
        print(f"from Kafka's metadata up to offset {metadata.end_offset}:")
        for kind, names in taken.names.items():
            print(f"  {_counted(kind, names, taken.counts[kind])}")
    row = _row(adopted)
    print(f"kwire adopted topics={row.topics} partitions={row.partitions} bytes={row.bytes} directory={row.directory}")


def _counted(kind: str, names: Sequence[str], count: int) -> str:
    """``3 quotas: user alice, ip 10.0.0.1``, with the first names only."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{kind}: {count} ({', '.join(names[:NAMES_MAX])}{more})"
