"""What a handler is given beside the request: who asks, over which connection, and the broker's parts.

`Services` is the broker as handlers see it: one object, filled by `kwire.server.broker`. `RequestContext` is made once
per request by the dispatcher. The `Authorizer` allows everything until access control comes; its vocabulary
(`AclOperation`, `ResourceType`, `Operation`) is Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.metadata.features import Range
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.coordinator.groups.coordinator import GroupCoordinator
    from kwire.coordinator.transactions.coordinator import TransactionCoordinator
    from kwire.handlers.registry import Registry
    from kwire.log.manager.log_manager import LogManager

T = TypeVar("T")

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class AclOperation(IntEnum):
    """What can be allowed (Kafka's `AclOperation` codes)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What it can be allowed on (Kafka's `ResourceType` codes)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""How a refusal is told, by the type of the resource."""


class Operation(NamedTuple):
    """One thing that a request needs to be allowed."""

    operation: AclOperation
    resource_type: ResourceType
    resource_name: str


class Principal(NamedTuple):
    """Who asks, as Kafka writes it: ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Everybody on a PLAINTEXT listener."""

ALL_OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that exist on a type of resource (Kafka's `AclEntry.supportedOperations`)."""


class Authorizer:
    """Decides what a principal may do. This one allows everything.

    ``allows_all`` lets the dispatcher skip the question: an open broker pays nothing for it.
    """

    allows_all = True

    def authorize(self, context: RequestContext, operation: Operation) -> bool:
        """Whether the request's principal may do one thing."""
        return True

    def allowed_names(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]
    ) -> list[str]:
        """Those of the names on which the operation is allowed, in the order given."""
        return [name for name in names if self.authorize(context, Operation(operation, resource_type, name))]

    def require(self, context: RequestContext, operation: Operation) -> None:
        """Raises the KafkaError that refuses, where `authorize` says no."""
        if not self.authorize(context, operation):
            code = AUTHORIZATION_FAILED.get(operation.resource_type, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            raise KafkaError(code)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """The bit field that Metadata, DescribeCluster and DescribeGroups tell when asked (bit = operation code)."""
        field = 0
        for operation in ALL_OPERATIONS.get(resource_type, ()):
            if self.authorize(context, Operation(operation, resource_type, name)):
                field |= 1 << operation
        return field


class Services:
    """The broker's parts, for handlers. Attributes are set by `kwire.server.broker` before a listener opens."""

    doors: Doors
    config: KafkaConfig
    controller: Controller
    peers: Peers
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    metrics: MetricsRegistry
    registry: Registry
    authorizer: Authorizer
    broker_id: int
    cluster_id: str
    supported_features: Mapping[str, Range]
    image_source: Callable[[], ClusterImage]

    def __init__(self, **parts: Any) -> None:
        self.authorizer = Authorizer()
        self._kept: dict[Any, Any] = {}
        for name, part in parts.items():
            setattr(self, name, part)

    @property
    def image(self) -> ClusterImage:
        """The newest snapshot of the cluster. Ask once per request, so that one answer rests on one state."""
        return self.image_source()

    def log_failure(self, where: str, error: BaseException) -> None:
        """Write down a failure that nobody foresaw, with its traceback; the client is told UNKNOWN_SERVER_ERROR."""
        from kwire.base.logging import get_logger

        get_logger("kwire.handlers").error("unexpected failure", where=where, exc_info=error)

    def kept(self, factory: Callable[[Services], T]) -> T:
        """What a handler keeps for the life of this broker (the fetch sessions, for one): made at the first call."""
        if factory not in self._kept:
            self._kept[factory] = factory(self)
        return self._kept[factory]  # type: ignore[no-any-return]


class RequestContext:
    """One request's circumstances.

    ``client_host`` is what Kafka shows of a client, such as ``/127.0.0.1``. ``endpoint`` is the (host, port) under
    which this broker is told to this client: the advertised one of the listener, or else the address that the client
    connected to. ``throttle_time_ms`` may be set by a handler; the dispatcher mutes the connection for as long.
    ``hurry`` may be set by one that waits: it is called when the client has sent another request meanwhile. ``alone``
    may be set by one of a pipelined API that waits: the client's next request is not begun before it is answered.
    """

    __slots__ = ("alone", "api_key", "api_version", "client_host", "client_id", "connection_id", "correlation_id",
                 "endpoint", "hurry", "listener", "principal", "services", "software_name", "software_version",
                 "throttle_time_ms")  # fmt: skip

    def __init__(
        self,
        services: Services,
        *,
        api_key: int = -1,
        api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = None,
        client_host: str = "/127.0.0.1",
        listener: str = "PLAINTEXT",
        principal: Principal = ANONYMOUS,
        endpoint: tuple[str, int] = ("localhost", 9092),
        connection_id: str = "",
        software_name: str = "unknown",
        software_version: str = "unknown",
    ) -> None:
        self.services = services
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client_host = client_host
        self.listener = listener
        self.principal = principal
        self.endpoint = endpoint
        self.connection_id = connection_id
        self.software_name = software_name
        self.software_version = software_version
        self.throttle_time_ms = 0
        self.hurry: Callable[[], object] | None = None
        self.alone = False
