"""The loss of the session with the metadata store: this broker is fenced at once, and registers again by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.store.store import StoreError

if TYPE_CHECKING:
    from kwire.cluster.controller.membership import IsOffline, Membership
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.server.log_dir_failures import FatalFailure

REJOIN_S: Final = 0.5
"""Seconds between attempts to register again."""

SEND_AWAY_S: Final = 1.0
"""Seconds between closings of all client connections while this broker is not registered."""

_log = get_logger("kwire.server")


class SessionLossHandler:
    """Fences this broker when its session is lost, and brings it back. ``close_connections``: all of the clients'.
    ``is_offline``: whether the log directory of a partition has failed."""

    def __init__(
        self,
        membership: Membership,
        replicas: ReplicaManager,
        close_connections: Callable[[], None],
        fatal: FatalFailure,
        is_offline: IsOffline,
    ) -> None:
        self._membership = membership
        self._is_offline = is_offline
        self._replicas = replicas
        self._close_connections = close_connections
        self._fatal = fatal
        self._active = False
        self.rejoining: asyncio.Task[None] | None = None
        """The task that registers this broker again, while there is one; the last one afterwards."""

    def start(self) -> None:
        """Act on losses from now on: the replica manager is about to start."""
        self._active = True

    def check(self) -> None:
        """Act on a loss that came before `start`."""
        if not self._membership.alive:
            self.on_loss()

    def close(self) -> None:
        """Stop registering again."""
        if self.rejoining is not None:
            self.rejoining.cancel()

    def on_loss(self) -> None:
        """Fence this broker: its partitions may have other leaders by now."""
        _log.error("the session with the metadata store is lost: nothing is served until this broker is back")
        if self._active:
            self._replicas.fence()
            if self.rejoining is None or self.rejoining.done():
                self.rejoining = asyncio.get_running_loop().create_task(self._rejoin(), name="rejoin")

    async def _rejoin(self) -> None:
        away = asyncio.get_running_loop().create_task(self._send_clients_away(), name="send clients away")
        try:
            while not self._membership.alive:  # the new session may be lost as well, before this broker is back
                try:
                    await self._membership.rejoin(self._is_offline)
                except (StoreError, KafkaError) as error:
                    if isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION:
                        self._fatal.report(str(error))
                        return
                    _log.warning("cannot come back yet", error=str(error))
                    await asyncio.sleep(REJOIN_S)
        finally:
            away.cancel()
        self._replicas.unfence()
        _log.info("back in the cluster", broker_epoch=self._membership.broker_epoch)

    async def _send_clients_away(self) -> None:
        """Close all connections again and again. The metadata that this broker can return is out of date, and a client
        with no other connection would keep asking for the leaders here; without a connection it tries other brokers."""
        while True:
            await asyncio.sleep(SEND_AWAY_S)
            self._close_connections()
