"""``kwire group list`` and ``kwire group describe``."""

from __future__ import annotations

import argparse

from kwire.cli import fail
from kwire.cli.connection.cluster import Cluster
from kwire.cli.groups.description import DescribedGroup, describe_group, list_groups
from kwire.cli.output import show


async def list_all(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """The groups of all brokers."""
    nodes = sorted(await cluster.nodes())
    show(await list_groups(cluster, nodes, arguments.state, arguments.type), arguments.output)
    return 0


async def describe(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Groups with their members; in tables one after the other."""
    found: list[DescribedGroup] = []
    status = 0
    for group in dict.fromkeys(arguments.groups):
        described = await describe_group(cluster, group)
        if described is None:
            status = fail(f"group {group}: there is no such group")
        else:
            found.append(described)
    if arguments.output != "table":
        show(found, arguments.output)
        return status
    for number, each in enumerate(found):
        if number:
            print()
        _print(each)
    return status


def _print(group: DescribedGroup) -> None:
    facts = [group.group, f"{group.type} group", group.state]
    if group.assignor:
        facts.append(f"assignor {group.assignor}")
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}")
    print("  ".join([*facts, f"coordinator {group.coordinator}"]))
    columns = ["member", "client", "host", "assigned"]
    if any(member.instance for member in group.members):
        columns.insert(1, "instance")
    show(group.members, "table", columns)
