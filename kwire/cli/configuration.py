"""How a command gets its configuration: command line before environment before file before defaults."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kwire.base.addresses import PORT_MAX, parse_address

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options with which a broker is configured."""
    listen_help = "short for --set listeners=PLAINTEXT://HOST:PORT; port 0 picks a free one"
    parser.add_argument("--listen", metavar="HOST:PORT", type=_listener, help=listen_help)
    parser.add_argument("file", nargs="?", metavar="FILE", help="a server.properties file, as for Apache Kafka")
    add_store_arguments(parser)


def add_store_arguments(parser: argparse._ActionsContainer) -> None:
    """The options of a command that opens a broker's metadata store but listens nowhere."""
    parser.add_argument("--config", metavar="FILE", help="the configuration: a server.properties file, as for Kafka")
    parser.add_argument("--data-dir", metavar="DIR", help="short for --set log.dirs=DIR (default: ./kwire-data)")
    add_set_argument(parser)


def add_set_argument(parser: argparse._ActionsContainer) -> None:
    """The option for single properties."""
    set_help = "a property; may be given more than once"
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], type=_property, dest="properties", help=set_help
    )


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def _listener(text: str) -> str:
    try:
        return f"PLAINTEXT://{parse_address(text if ':' in text else f':{text}')}"
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT (port 0 to {PORT_MAX})") from None


def load(arguments: argparse.Namespace) -> KafkaConfig:
    """The configuration that options, environment and file make together. ConfigError; OSError for the file."""
    from kwire.base.config import KafkaConfig

    text = _file_text(getattr(arguments, "file", None), arguments.config)
    overrides: list[tuple[str, str]] = list(arguments.properties)
    if getattr(arguments, "listen", None):
        overrides.append(("listeners", arguments.listen))
    if arguments.data_dir:
        overrides.append(("log.dirs", arguments.data_dir))
    return KafkaConfig.load(text, os.environ, overrides)


def _file_text(positional: str | None, option: str | None) -> str | None:
    """The text of the one file that was named, if any. OSError with its name, ConfigError for two."""
    from kwire.base.config import ConfigError

    if positional and option:
        raise ConfigError("--config", option, f"there is one file of properties, and {positional} is named too")
    path = positional or option
    if not path:
        return None
    from pathlib import Path  # imported late: it takes 3 ms

    return Path(path).read_text(encoding="utf-8")


def cluster_id_of_environment() -> str | None:
    """The id for a new cluster, as Kafka's official image takes it."""
    return os.environ.get("CLUSTER_ID") or os.environ.get("KAFKA_CLUSTER_ID") or None
