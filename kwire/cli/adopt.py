"""``kwire adopt DIR``: adopt a data directory written by Apache Kafka.

The topics in it are registered, with their topic ids, in the metadata store that is created in the directory; the logs
stay as they are. Afterwards ``kwire start --data-dir DIR`` serves them. Kafka must not run on the directory.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from kwire.cli import fail

if TYPE_CHECKING:
    from kwire.log.manager.adopt import AdoptableDirectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire adopt``."""
    parser.add_argument("directory", metavar="DIR", help="an entry of Kafka's log.dirs")


def run(arguments: argparse.Namespace) -> int:
    """Inspect the directory, adopt its topics and print what was found."""
    from kwire.base.config import ConfigError
    from kwire.base.doors import Files
    from kwire.log.common.log_dirs import LogDirectoryError
    from kwire.log.manager.adopt import inspect_data_directory
    from kwire.server.errors import StartError

    try:
        found = inspect_data_directory(Files(), arguments.directory)
        found.topics()
        adopted = asyncio.run(_adopt(arguments.directory))
    except (LogDirectoryError, StartError, ConfigError) as error:
        return fail(error)
    except OSError as error:
        return fail(f"{arguments.directory}: {error.strerror or error}")
    _tell(found, adopted)
    return 0


async def _adopt(directory: str) -> list[str]:
    """Start a broker on the directory, which registers and recovers what is there, and stop it again."""
    from kwire.base.config import KafkaConfig
    from kwire.server.broker import Broker

    config = KafkaConfig({"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0"})
    async with Broker(config, adopt=True) as broker:
        return broker.adopted_topics


def _tell(found: AdoptableDirectory, adopted: list[str]) -> None:
    for line in found.skipped:
        print(f"left out: {line}", file=sys.stderr)
    size = sum(partition.size for partition in found.partitions)
    partitions = sum(partition.topic in adopted for partition in found.partitions)
    print(f"kwire adopted topics={len(adopted)} partitions={partitions} bytes={size} directory={found.path}")
