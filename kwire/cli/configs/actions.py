"""What ``kwire config`` does."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from kwire.cli.configs.requests import (
    DELETE,
    OPERATIONS,
    TYPES,
    Change,
    alter_resource,
    describe_resources,
    is_own,
    row,
    subject,
)
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.output import show
from kwire.codec.messages.list_config_resources_request import ListConfigResourcesRequest


class ResourceRow(NamedTuple):
    """What has configurations of its own. ``name`` of all brokers together: ``*``."""

    type: str
    name: str


class ChangedConfig(NamedTuple):
    """A configuration of ``set`` and ``unset``. ``operation``: set, delete, append or subtract."""

    name: str
    operation: str
    value: str | None


async def list_resources(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Resources with their types, by ListConfigResources (KIP-1142)."""
    kinds = [TYPES[arguments.type]] if arguments.type else []
    response = await cluster.call(ListConfigResourcesRequest(resource_types=kinds))
    check(response.error_code, "configurations")
    names = {number: name for name, number in TYPES.items()}
    rows = [
        ResourceRow(names.get(each.resource_type, str(each.resource_type)), each.resource_name or "*")
        for each in response.config_resources
    ]
    show(sorted(rows), arguments.output)
    return 0


async def get(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """The configurations of a resource: those that were set, those that are named, or all."""
    kind, name = arguments.resource
    described = (await describe_resources(cluster, kind, [name], arguments.names or None))[name]
    known = {each.name for each in described}
    for wanted in arguments.names:
        if wanted not in known:
            raise CommandError(f"{subject(kind, name)} has no configuration {wanted}")
    everything = arguments.all or arguments.names
    rows = [row(each) for each in described if everything or is_own(kind, each)]
    columns = ("name", "value", "source", *(("read_only", "sensitive") if arguments.all else ()))
    show(rows, arguments.output, columns)
    return 0


async def set_values(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Set configurations, all or none."""
    return await _alter(cluster, arguments, [Change(*each) for each in arguments.changes])


async def unset(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Take configurations back, all or none."""
    return await _alter(cluster, arguments, [Change(name, DELETE, None) for name in arguments.names])


async def _alter(cluster: Cluster, arguments: argparse.Namespace, changes: list[Change]) -> int:
    kind, name = arguments.resource
    await alter_resource(cluster, kind, name, changes, dry_run=arguments.dry_run)
    if arguments.output == "table":
        print(f"{subject(kind, name)}: {'would be changed' if arguments.dry_run else 'changed'}")
        return 0
    show([ChangedConfig(each.name, OPERATIONS[each.operation], each.value) for each in changes], arguments.output)
    return 0
