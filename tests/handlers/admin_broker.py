"""A broker as administration handlers see it: the cluster's parts on the memory store, real logs in a directory."""

from __future__ import annotations

import inspect
from typing import Any

from kwire.handlers.context import Authorizer, RequestContext, Services
from kwire.log.common.log_config import LogConfig
from kwire.log.manager.log_manager import LogManager
from tests.cluster.helpers import ENDPOINTS, node


class Denying(Authorizer):
    """Refuses the operations listed, on names that start with "secret" (or on the cluster)."""

    allows_all = False

    def __init__(self, *operations: int) -> None:
        self._operations = operations

    def authorize(self, context: Any, operation: Any) -> bool:
        name = operation.resource_name
        return not (operation.operation in self._operations and name.startswith(("secret", "kafka-cluster")))


class AdminBroker:
    """``await broker.call(module, request, version)`` is what a client would get, before it is encoded."""

    def __init__(self, made: Any, logs: LogManager, replicas: Any) -> None:
        self.node = made
        self.logs = logs
        self.replicas = replicas
        self.services = Services(
            doors=made.doors,
            config=made.config,
            controller=made.controller,
            replicas=replicas,
            logs=logs,
            broker_id=1,
            image_source=lambda: made.metadata.image,
        )

    @property
    def image(self) -> Any:
        return self.node.metadata.image

    def context(self, version: int, **fields: Any) -> RequestContext:
        return RequestContext(self.services, api_version=version, **fields)

    async def call(self, module: Any, request: Any, version: int | None = None, **fields: Any) -> Any:
        version = module.API.served[1] if version is None else version
        answer = module.API.handle(request, self.context(version, **fields))
        return await answer if inspect.isawaitable(answer) else answer

    async def close(self) -> None:
        await self.replicas.close()
        await self.logs.close()
        self.node.doors.executor.close()


async def admin_broker(path: Any, directories: int = 1, **properties: Any) -> AdminBroker:
    from kwire.cluster.replication.replica_manager import ReplicaManager

    made = await node(join=False, **properties)
    paths = [str(path / f"d{number}") for number in range(directories)]
    logs = LogManager(made.doors, paths, lambda topic: LogConfig())
    for directory in logs.directories:
        directory.lock()
    await logs.load_all()
    await made.membership.join(ENDPOINTS)
    replicas = ReplicaManager(made.config, logs, made.metadata, 1, doors=made.doors)
    replicas.start()
    return AdminBroker(made, logs, replicas)
