"""DescribeConfigs and IncrementalAlterConfigs, as commands need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TYPES: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
"""Types of resources."""
SOURCES: Final = (
    "unknown",
    "topic",
    "broker",
    "all brokers",
    "properties file",
    "default",
    "broker logger",
    "client metrics",
    "group",
)
"""Where values come from, by Kafka's numbers. What was set for the resource itself has its type's name."""
_OWN: Final = {"topic": (1,), "broker": (2, 3), "broker-logger": (6,), "client-metrics": (7,), "group": (8,)}
SET, DELETE, APPEND, SUBTRACT = range(4)
OPERATIONS: Final = ("set", "delete", "append", "subtract")


class ConfigRow(NamedTuple):
    """A configuration. ``value``: None for a password, and for what has no value."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool


class Change(NamedTuple):
    """A change of one configuration. ``operation``: `SET`, `DELETE`, `APPEND` or `SUBTRACT`."""

    name: str
    operation: int
    value: str | None


async def describe_resources(
    cluster: Cluster, kind: str, names: Sequence[str], keys: list[str] | None = None
) -> dict[str, list[Any]]:
    """The configurations of resources of one type, as DescribeConfigs has them. `CommandError`."""
    resources = [
        DescribeConfigsResource(resource_type=TYPES[kind], resource_name=name, configuration_keys=keys)
        for name in names
    ]
    if not resources:
        return {}
    response = await cluster.call(DescribeConfigsRequest(resources=resources), _node(kind, names))
    found = {}
    for result in response.results:
        check(result.error_code, subject(kind, result.resource_name), result.error_message)
        found[result.resource_name] = sorted(result.configs, key=lambda each: str(each.name))
    return found


def set_configs(kind: str, described: Sequence[Any]) -> dict[str, str | None]:
    """Those that were set for a resource of this type itself."""
    return {each.name: each.value for each in described if is_own(kind, each)}


def row(described: Any) -> ConfigRow:
    """A configuration as it is printed."""
    source = described.config_source
    words = SOURCES[source] if 0 <= source < len(SOURCES) else str(source)
    return ConfigRow(described.name, described.value, words, described.read_only, described.is_sensitive)


def is_own(kind: str, described: Any) -> bool:
    """Whether a configuration was set for a resource of this type, rather than in a file or not at all."""
    return described.config_source in _OWN[kind]


async def alter_resource(
    cluster: Cluster, kind: str, name: str, changes: Sequence[Change], *, dry_run: bool = False
) -> None:
    """Change configurations of one resource, all or none. `CommandError`."""
    configs = [AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in changes]
    resource = AlterConfigsResource(resource_type=TYPES[kind], resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)

    async def attempt() -> None:
        [result] = (await cluster.call(request, _node(kind, [name]))).responses
        check(result.error_code, subject(kind, name), result.error_message)

    await cluster.until_done(attempt)


def _node(kind: str, names: Sequence[str]) -> int | None:
    """The broker that a request must go to: brokers know themselves best, and some settings are only theirs."""
    if kind not in ("broker", "broker-logger") or not names[0]:
        return None
    if not names[0].isdecimal():
        raise CommandError(f"{names[0]} is not a broker's id")
    return int(names[0])


def subject(kind: str, name: str) -> str:
    """A resource in words."""
    return f"{kind.replace('-', ' ')} {name}" if name else "all brokers"
