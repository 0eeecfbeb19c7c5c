"""``kwire zookeeper protect``: give the nodes that a cluster already has in ZooKeeper the ACL of new ones.

ZooKeeper sets ACLs when nodes are created, so `zookeeper.set.acl` alone leaves older nodes open to everybody. Run this
with the brokers' configuration, after all of them log in at ZooKeeper: a broker without that login has no access then.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kwire.cli import configuration, fail, fail_with_file, output

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig


class ProtectedNodes(NamedTuple):
    """How many nodes have another ACL now."""

    nodes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire zookeeper``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    protect = actions.add_parser("protect", help="give older nodes the ACL that zookeeper.set.acl gives new ones")
    output.add_arguments(protect)
    configuration.add_store_arguments(protect)


def run(arguments: argparse.Namespace) -> int:
    """Set the ACLs and print of how many nodes."""
    from kwire.base.config import ConfigError
    from kwire.cluster.store.store import StoreError

    try:
        count = asyncio.run(_protect(configuration.load(arguments)))
    except (ConfigError, StoreError) as error:
        return fail(error)
    except OSError as error:
        return fail_with_file(error)
    output.show_one_done(ProtectedNodes(count), arguments.output, f"kwire protected nodes={count}")
    return 0


async def _protect(config: KafkaConfig) -> int:
    from kwire.base.config import ConfigError
    from kwire.cluster.store.zookeeper.client import settings_of
    from kwire.cluster.store.zookeeper.store import ZooKeeperStore

    if not config.zookeeper_connect:
        raise ConfigError("zookeeper.connect", "", "names no ZooKeeper whose nodes could be protected")
    if not config.zookeeper_set_acl:
        raise ConfigError("zookeeper.set.acl", "false", "must be true, or brokers would create open nodes again")
    store = ZooKeeperStore(settings_of(config))
    await store.open()
    try:
        return await store.protect()
    finally:
        await store.close()
