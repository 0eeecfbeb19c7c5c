"""What a handler is given beside the request: the client, its connection, and the broker's parts.

`Services` is the broker as handlers see it, made by `kwire.server.parts`. `RequestContext` is made once per request by
the dispatcher. The `Authorizer` here allows everything. What lives elsewhere: the one that decides by access control
lists (`acl_authorizer`), its vocabulary (`kwire.security.acls.operations`), what handlers use it for (`authorization`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.quota import UNBOUNDED, MutationQuota
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.security.acls.operations import ALL_OPERATIONS, AclOperation, Operation, ResourceType
from kwire.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.metadata.features import Range
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.codec.messages.api_versions_response import ApiVersionsResponse
    from kwire.coordinator.groups.coordinator import GroupCoordinator
    from kwire.coordinator.share.coordinator import ShareCoordinator
    from kwire.coordinator.share.persister import Persister
    from kwire.coordinator.transactions.coordinator import TransactionCoordinator
    from kwire.handlers.data.fetch.sessions import FetchSessions
    from kwire.handlers.share.partitions import SharePartitions
    from kwire.handlers.telemetry.clients import TelemetryClients
    from kwire.log.manager.log_manager import LogManager
    from kwire.quotas.limits import ClientLimits
    from kwire.quotas.managers import QuotaManagers

AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error code of a denied operation, by the type of its resource."""


_REFUSALS = {
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}


def _refusal(operation: Operation) -> str:
    """What the client is told. Kafka's texts; for the cluster, Kafka tells all fields of its request."""
    text = _REFUSALS.get(operation.resource_type)
    return text or f"The request needs {operation.operation.name} permission on the cluster."


class ConnectionSecurity(NamedTuple):
    """How a connection is secured: the protocol of its listener (``SASL_SSL``), and whether the login was one with a
    delegation token."""

    protocol: str = "PLAINTEXT"
    token_authenticated: bool = False


INSECURE = ConnectionSecurity()
"""The security of a connection to a PLAINTEXT listener."""


class Purpose(Enum):
    """Why a decision is needed: at which level the audit log has it (Kafka's `Action.logIfAllowed`, `logIfDenied`)."""

    ACCESS = 1
    """The client wants to do the operation: a denial is worth a line."""
    CHOICE = 2
    """A denial leaves something out of a list, or another operation is enough in its place."""
    REPORT = 3
    """The client is only told the decision: nothing is done with it."""


class Decisions:
    """What an authorizer has decided for the client of one connection. ``made``: whether an operation is allowed, by
    the fields of the `Operation`; they are valid as long as ``basis`` is what the authorizer decides by."""

    __slots__ = ("basis", "made")

    def __init__(self) -> None:
        self.basis: object = None
        self.made: dict[tuple[AclOperation, ResourceType, str | None], bool] = {}


class Authorizer:
    """Decides what a principal may do. This one allows everything.

    Where ``allows_all`` is true, `authorize` is not even called, so authorisation costs an open broker nothing.
    """

    allows_all = True

    def follow(self, image: ClusterImage, _delta: object = None) -> None:
        """Decide by this image of the cluster from now on."""

    def authorize(self, context: RequestContext, operation: Operation, purpose: Purpose = Purpose.ACCESS) -> bool:
        """Whether the request's principal may do an operation."""
        return True

    def authorize_some(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of a type on which the principal may do an operation (KIP-679)."""
        return True

    def has_allowed(self, decisions: Decisions, operation: tuple[AclOperation, ResourceType, str]) -> bool:
        """Whether an operation is known to be allowed to the client of these decisions."""
        return self.allows_all

    def allowed_names(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        purpose: Purpose = Purpose.ACCESS,
    ) -> list[str]:
        """The names of the resources on which the operation is allowed, in the given order."""
        decisions = context.decisions
        return [
            name
            for name in names
            if self.has_allowed(decisions, (operation, resource_type, name))
            or self.authorize(context, Operation(operation, resource_type, name), purpose)
        ]

    def require(self, context: RequestContext, operation: Operation) -> None:
        """Raise the KafkaError of the resource's type unless the operation is allowed."""
        if not self.authorize(context, operation):
            code = AUTHORIZATION_FAILED.get(operation.resource_type, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            raise KafkaError(code, _refusal(operation))

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """The allowed operations as the bit field of Metadata, DescribeCluster and DescribeGroups (KIP-430). Bit n is
        the operation with code n."""
        field = 0
        for operation in ALL_OPERATIONS.get(resource_type, ()):
            if self.authorize(context, Operation(operation, resource_type, name), Purpose.REPORT):
                field |= 1 << operation
        return field


class Quotas:
    """The quotas of clients (`kwire.quotas.managers`), loaded with the first one. ``active``: somebody has a limit."""

    def __init__(self, make: Callable[[], QuotaManagers]) -> None:
        self._make = make
        self._managers: QuotaManagers | None = None
        self.active = False

    @property
    def managers(self) -> QuotaManagers:
        """Who may use what, and has used what."""
        if self._managers is None:
            self._managers = self._make()
        return self._managers

    def follow(self, image: ClusterImage, _delta: object = None) -> None:
        """Apply the limits of this image from the next request on."""
        if image.client_quotas or self.active:
            self.managers.follow(image)
            self.active = self.managers.active

    def limit_by(self, limits: ClientLimits) -> None:
        """Apply these limits until the image has others."""
        self.managers.limit_by(limits)
        self.active = self.managers.active


class Telemetry:
    """The telemetry of clients (`kwire.handlers.telemetry`), loaded with the first request about it."""

    def __init__(self, make: Callable[[], TelemetryClients]) -> None:
        self._make = make
        self._clients: TelemetryClients | None = None

    @property
    def clients(self) -> TelemetryClients:
        """The clients that push metrics."""
        if self._clients is None:
            self._clients = self._make()
        return self._clients

    def disconnected(self, connection_id: str) -> None:
        """A connection has closed."""
        if self._clients is not None:
            self._clients.disconnected(connection_id)


class Shares:
    """The share sessions and share partitions (`kwire.handlers.share`), loaded with the first request about them."""

    def __init__(self, make: Callable[[], SharePartitions]) -> None:
        self._make = make
        self._partitions: SharePartitions | None = None

    @property
    def partitions(self) -> SharePartitions:
        """What the members of share groups read here."""
        if self._partitions is None:
            self._partitions = self._make()
        return self._partitions

    def disconnected(self, connection_id: str) -> None:
        """A connection has closed: its share sessions end."""
        if self._partitions is not None:
            self._partitions.sessions.disconnected(connection_id)

    def follow(self, image: ClusterImage, _delta: object = None) -> None:
        """Without share groups in this image's features, no sessions and share partitions are left."""
        if self._partitions is not None and not image.features.get(SHARE_VERSION):
            self._partitions.close()

    def close(self) -> None:
        """The broker stops: no lock ends any more."""
        if self._partitions is not None:
            self._partitions.close()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Services:
    """The broker's parts, for handlers. `kwire.server.parts` makes it, complete, before a request is dispatched."""

    doors: Doors
    config: KafkaConfig
    controller: Controller
    peers: Peers
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_coordinator: ShareCoordinator
    share_persister: Callable[[], Persister]
    """What keeps the states of share groups, wherever their coordinators are; made with the first call."""
    metrics: MetricsRegistry
    advertised_apis: Sequence[tuple[int, int, int]]
    """What ApiVersions returns: (key, first version, last version), by key."""
    authorizer: Authorizer
    quotas: Quotas
    telemetry: Telemetry
    shares: Shares
    fetch_sessions: FetchSessions
    broker_id: int
    supported_features: Mapping[str, Range]
    """Those that clients know of."""
    image_source: Callable[[], ClusterImage]
    log_failure: Callable[[str, BaseException], None]
    """Logs an unexpected failure, by where it happened; the client gets UNKNOWN_SERVER_ERROR."""
    advertisements: dict[int, tuple[ClusterImage, ApiVersionsResponse, bytes]] = field(default_factory=dict)
    """By version, the last response of ApiVersions and its bytes, and the image whose features it shows."""

    @property
    def image(self) -> ClusterImage:
        """The newest snapshot of the cluster. Take it once per request, so that a response rests on one state."""
        return self.image_source()


class Unthrottled(list[Any]):
    """The parts of the encoded response to a request that is yet to be charged, for `RequestContext.charged`. A client
    that turns out to be throttled gets the response encoded anew, because it says for how long."""


class RequestContext:
    """The circumstances of one request.

    ``client_host`` is the client's address as Kafka shows it, such as ``/127.0.0.1``. ``endpoint`` is this broker's
    (host, port) in responses to this client: the listener's advertised address, or else the one that the client
    connected to. ``request`` is the request itself, once it is decoded. A handler may set four attributes.
    ``throttle_time_ms``: the dispatcher mutes the connection for that long. ``charged``: the handler has charged the
    client's quotas itself, or there are none, with the parts of the encoded response; they are empty if it has to be
    encoded. (`Unthrottled`: it has the parts, and the client is yet to be charged.) ``wake_early``, with a pending
    response: called when the client sends another request. ``exclusive``, with a pending response of a pipelined API:
    the client's next request starts only after that response.
    """

    forwarded: ClassVar[bool] = False
    """Whether another broker got the request from its client (`ForwardedContext`)."""

    __slots__ = (
        "api_key",
        "api_version",
        "charged",
        "client_host",
        "client_id",
        "connection_id",
        "correlation_id",
        "decisions",
        "endpoint",
        "exclusive",
        "listener",
        "principal",
        "request",
        "security",
        "services",
        "software_name",
        "software_version",
        "throttle_time_ms",
        "wake_early",
    )

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
        security: ConnectionSecurity = INSECURE,
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
        self.request: Any = None
        self.decisions = Decisions()
        self.security = security
        self.endpoint = endpoint
        self.connection_id = connection_id
        self.software_name = software_name
        self.software_version = software_version
        self.throttle_time_ms = 0
        self.charged: list[Any] | None = None
        self.wake_early: Callable[[], object] | None = None
        self.exclusive = False

    def mutation_quota(self, strict_since: int) -> MutationQuota:
        """What the request pays with for creating and deleting partitions (KIP-599): a version that is older than
        ``strict_since`` does not know THROTTLING_QUOTA_EXCEEDED, so all is done and the client is throttled."""
        quotas = self.services.quotas
        if not quotas.active:
            return UNBOUNDED
        is_strict = self.api_version >= strict_since
        return quotas.managers.mutation_quota(self.principal.name, self.client_id, is_strict=is_strict)

    def busy_s(self) -> float:
        """The seconds that the broker has spent on this request, without those in which it waited for something."""
        return 0.0


class ForwardedContext(RequestContext):
    """The circumstances of a request that another broker has forwarded in an Envelope. Principal, client id and host
    are the client's; listener, endpoint and connection are those of the other broker."""

    __slots__ = ()

    forwarded = True
