"""Where a command's settings come from: flags, ``-X``, the environment, a profile, a file of client properties.

Each of these wins over those after it. All name Kafka's client properties, as Java's clients spell them or librdkafka
(`librdkafka.java_names`); in the environment ``security.protocol`` is ``KWIRE_SECURITY_PROTOCOL``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.cli.connection.errors import CommandError

if TYPE_CHECKING:
    from kwire.cli.connection.cluster import Cluster

BOOTSTRAP: Final = "bootstrap.servers"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
TIMEOUT_S: Final = 10.0
_PREFIX: Final = "KWIRE_"
_FAMILIES: Final = (
    "BOOTSTRAP_",
    "SECURITY_",
    "SASL_",
    "SSL_",
    "METADATA_BROKER_LIST",
    "CLIENT_ID",
    "SCHEMA_REGISTRY_",
    "BASIC_AUTH_",
)


class Settings(NamedTuple):
    """What the sources make together. ``properties``: Kafka's client properties with Java's names."""

    bootstrap: str
    properties: Mapping[str, str]
    timeout_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that talks to a running cluster."""
    options = parser.add_argument_group("connection")
    options.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"brokers, with commas between them; one is enough (default: {DEFAULT_BOOTSTRAP})",
    )
    options.add_argument("--profile", metavar="NAME", help="settings of `kwire profile` to use")
    add_client_arguments(options)


def add_client_arguments(options: argparse._ArgumentGroup) -> None:
    """The options that say how to connect, not where to."""
    options.add_argument(
        "--command-config", metavar="FILE", help="a file of client properties: security.protocol, ssl.*, sasl.*"
    )
    options.add_argument(
        "-X",
        "--command-property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_property,
        dest="client_properties",
        help="a client property, by Java's or librdkafka's name; may be given more than once",
    )
    options.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT_S,
        help=f"how long to wait for the cluster (default: {TIMEOUT_S:.0f})",
    )


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def seconds(text: str) -> float:
    """A positive number of seconds of a command line."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


def settings(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a command. `CommandError` for a file or profile that cannot be read."""
    sources = (
        _of_file(arguments.command_config),
        _of_profile(arguments.profile or environment.get("KWIRE_PROFILE"), environment),
        _of_environment(environment),
        dict(arguments.client_properties),
    )
    properties: dict[str, str] = {}
    for each in sources:
        if each:
            from kwire.cli.connection.librdkafka import java_names

            properties.update(java_names(each))
    bootstrap = arguments.bootstrap_server or properties.get(BOOTSTRAP) or DEFAULT_BOOTSTRAP
    return Settings(bootstrap, properties, arguments.timeout)


def named_cluster(arguments: argparse.Namespace) -> bool:
    """Whether any of the sources names a cluster. `CommandError` for a file or profile that cannot be read."""
    return arguments.bootstrap_server is not None or BOOTSTRAP in settings(arguments).properties


def _of_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    from kwire.base.config import ConfigError
    from kwire.base.config.sources import parse_properties

    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def profile_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file with the profiles."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME", ""), ".config")
    return Path(home) / "kwire" / "config.toml"


def _of_profile(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    file = profile_file(environment)
    if name is None and not file.exists():
        return {}
    content = read_profiles(file)
    name = name or content.get("profile")
    if name is None:
        return {}
    profile = content.get("profiles", {}).get(name)
    if not isinstance(profile, dict):
        raise CommandError(f"{file}: there is no profile {name}")
    return {key: _text(value) for key, value in profile.items()}


def read_profiles(file: Path) -> dict[str, Any]:
    """The content of the file with the profiles; nothing if there is none. `CommandError`."""
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for variable, value in environment.items():
        name = variable.removeprefix(_PREFIX)
        if name != variable and name.startswith(_FAMILIES):
            found["bootstrap.servers" if name == "BOOTSTRAP_SERVER" else name.lower().replace("_", ".")] = value
    return found


@asynccontextmanager
async def open_cluster(arguments: argparse.Namespace) -> AsyncIterator[Cluster]:
    """A connection to the cluster that the options name. `CommandError`."""
    from kwire.cli.connection.cluster import Cluster

    chosen = settings(arguments)
    cluster = Cluster.of(chosen.bootstrap, chosen.properties, chosen.timeout_s)
    try:
        await cluster.connect()
        yield cluster
    finally:
        cluster.close()
