"""How a broker's parts are started, in order, and handed over before they stop.

Each phase pushes what undoes it on the exit stack of `kwire.server.broker`, so a stop runs in reverse order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.cluster.controller.acl_confirmations import AclConfirmer
from kwire.cluster.controller.adoption import adopt_logs
from kwire.cluster.store.store import StoreError
from kwire.server.settings import cleaner_settings

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from kwire.server.parts import BrokerParts

DRAIN_S: Final = 5.0
"""Seconds that a stopping broker waits for clients to receive the responses to their requests."""

HAND_OVER_S: Final = 10.0
"""Seconds that a stopping broker waits for other brokers to lead its partitions."""

_log = get_logger("kwire.server")


async def join(parts: BrokerParts, cluster_id: str | None, *, adopt: bool, stack: AsyncExitStack) -> list[str]:
    """Register this broker. Returns the topics that were adopted from the log directories: in a new cluster, or with
    ``adopt``, all that the cluster does not have."""
    storage, membership = parts.storage, parts.cluster.membership
    stack.push_async_callback(membership.leave)
    confirmer = AclConfirmer(storage.store, storage.metadata, membership, storage.config.node_id)
    storage.metadata.add_listener(confirmer.follow)
    stack.callback(confirmer.close)
    cluster_id = await membership.join(
        cluster_id=cluster_id,
        clean=storage.logs.stopped_clean,
        is_offline=storage.logs.is_offline,
    )
    storage.claim(cluster_id)
    if not (membership.founded or adopt) or not len(storage.logs):
        return []
    topics = await adopt_logs(parts.cluster.controller, storage.logs)
    _log.info("topics found in the data directory are served", topics=len(topics))
    return topics


async def take_over(parts: BrokerParts, stack: AsyncExitStack) -> None:
    """Start the partitions that the cluster's image assigns to this broker, and their coordinators."""
    storage, config, logs = parts.storage, parts.storage.config, parts.storage.logs
    stack.callback(parts.cluster.peers.close)
    parts.session_loss.start()
    stack.callback(parts.session_loss.close)
    parts.cluster.replicas.start()
    await parts.cluster.replicas.wait_until_applied()
    parts.cluster.offline_replicas.start(storage.failures)
    stack.callback(parts.cluster.offline_replicas.close)
    stack.push_async_callback(parts.cluster.replicas.close)
    parts.cluster.failover.start()
    stack.push_async_callback(parts.cluster.failover.close)
    if config.kwire_balance_enable:
        from kwire.cluster.balance.balancer import Balancer

        stack.push_async_callback(Balancer(config, parts.cluster.controller, storage.metadata).close)
    if config.delegation_token_secret_key:
        from kwire.cluster.controller.token_expiry import TokenExpiry

        expiry = TokenExpiry(parts.cluster.controller, config.delegation_token_expiry_check_interval_ms)
        stack.push_async_callback(expiry.close)

    def follow_cleaner(_changed: frozenset[str]) -> None:
        logs.cleaner.reconfigure(cleaner_settings(config))

    config.on_change(follow_cleaner)
    follow_cleaner(frozenset())
    logs.start()
    await parts.groups.start()
    await parts.transactions.start()
    await parts.share_coordinator.start()
    parts.session_loss.check()


def accept(parts: BrokerParts, stack: AsyncExitStack) -> None:
    """Serve clients from now on."""
    parts.net.start()
    stack.push_async_callback(parts.net.drain, DRAIN_S)
    stack.push_async_callback(parts.groups.close)
    stack.push_async_callback(parts.transactions.close)
    stack.push_async_callback(parts.share_coordinator.close)
    stack.callback(parts.services.shares.close)
    stack.callback(parts.net.stop_accepting)
    if parts.control is not None:
        stack.callback(parts.control.resume)  # paused requests get their responses before the connections are drained
    stack.push_async_callback(hand_over, parts)
    stack.callback(parts.session_loss.close)


async def hand_over(parts: BrokerParts) -> None:
    """Controlled shutdown: let other brokers lead what they can, while this one still serves everything."""
    metadata = parts.storage.metadata
    if not parts.storage.config.controlled_shutdown_enable or len(metadata.image.brokers) < 2:
        return
    try:
        await parts.cluster.membership.announce_leaving()
    except StoreError as error:
        _log.warning("stopping without handing over", error=str(error))
        return
    if not await metadata.until(lambda _: not parts.cluster.replicas.has_partitions_to_hand_over(), HAND_OVER_S):
        _log.warning("stopping without handing over all partitions", seconds=HAND_OVER_S)
