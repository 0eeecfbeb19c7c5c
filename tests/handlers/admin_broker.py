"""A broker as administration handlers see it: the cluster's parts on the memory store, real logs in a directory."""

from __future__ import annotations

import dataclasses
from typing import Any

from harness.services import services_with
from kwire.base.futures import resolved
from kwire.handlers.context import Authorizer, RequestContext
from kwire.log.common.log_config import LogConfig
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from tests.cluster.helpers import node, replica_manager


class Denying(Authorizer):
    """Refuses the operations listed, on names that start with "secret" (or on the cluster)."""

    allows_all = False

    def __init__(self, *operations: int) -> None:
        self._operations = operations

    def authorize(self, context: Any, operation: Any, purpose: object = None) -> bool:
        name = operation.resource_name
        return not (operation.operation in self._operations and name.startswith(("secret", "kafka-cluster")))


class Guard(Authorizer):
    """Refuses everything on these names, and counts the decisions."""

    allows_all = False

    def __init__(self, *names: str) -> None:
        self._names = names
        self.decisions = 0

    def authorize(self, context: Any, operation: Any, purpose: object = None) -> bool:
        self.decisions += 1
        return operation.resource_name not in self._names


class AdminBroker:
    """``await broker.call(module, request, version)`` is what a client would get, before it is encoded."""

    def __init__(self, made: Any, logs: LogManager, replicas: Any) -> None:
        self.node = made
        self.logs = logs
        self.replicas = replicas
        self.services = services_with(
            doors=made.doors,
            config=made.config,
            controller=made.controller,
            replicas=replicas,
            logs=logs,
            broker_id=1,
            image_source=lambda: made.metadata.image,
        )

    def replace_services(self, **parts: Any) -> None:
        """Go on with other parts."""
        self.services = dataclasses.replace(self.services, **parts)

    @property
    def image(self) -> Any:
        return self.node.metadata.image

    def context(self, version: int, **fields: Any) -> RequestContext:
        return RequestContext(self.services, api_version=version, **fields)

    async def call(self, module: Any, request: Any, version: int | None = None, **fields: Any) -> Any:
        version = module.API.served[1] if version is None else version
        return await resolved(module.API.handle(request, self.context(version, **fields)))

    async def close(self) -> None:
        await self.replicas.close()
        await self.logs.close()
        self.node.doors.executor.close()


async def admin_broker(path: Any, directories: int = 1, **properties: Any) -> AdminBroker:
    made = await node(join=False, **properties)
    paths = [str(path / f"d{number}") for number in range(directories)]
    logs = LogManager(made.doors, paths, lambda topic: LogConfig(), ManagerSettings())
    for directory in logs.directories:
        directory.lock()
    await logs.load_all()
    await made.membership.join()
    replicas = replica_manager(made, logs)
    replicas.start()
    return AdminBroker(made, logs, replicas)
