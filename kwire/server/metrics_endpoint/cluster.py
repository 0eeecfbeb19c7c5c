"""`ClusterMetrics`: one address for the metrics of all brokers of ``kwire start --brokers``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.base.logging import get_logger
from kwire.server.metrics_endpoint.endpoint import SOCKET_PREFIX, EndpointProcess, endpoint_settings

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig

_log = get_logger("kwire.server.metrics")


class ClusterMetrics:
    """The endpoint of several brokers. Each gets a Unix socket at which it serves its snapshots."""

    def __init__(self, config: KafkaConfig, broker_ids: Iterable[int]) -> None:
        self._directory = tempfile.mkdtemp(prefix="kwire-metrics-")  # only its owner may look into it
        self._sockets = {str(each): os.path.join(self._directory, f"{each}.sock") for each in broker_ids}
        self._process = EndpointProcess(config.kwire_metrics_listen or "", endpoint_settings(config), self._sockets)

    def listen(self, broker_id: int) -> str:
        """`kwire.metrics.listen` of one broker."""
        return f"{SOCKET_PREFIX}{self._sockets[str(broker_id)]}"

    async def open(self) -> None:
        """Serve, from whichever brokers run. `StartError`."""
        await self._process.start()

    async def close(self) -> None:
        """End the process."""
        await self._process.close()
        shutil.rmtree(self._directory, ignore_errors=True)
