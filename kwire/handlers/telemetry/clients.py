"""`TelemetryClients`: the clients that push metrics, what is wanted of each, and when each may push again (KIP-714).

The rules are those of Kafka's `ClientMetricsManager`. A client is known by the id that it got, or chose, until its
connection closes, or until it has sent nothing for a minute and for three of its intervals. After a change of the
subscriptions it begins anew under the same id. What lives elsewhere: the subscriptions (`subscriptions`), where the
metrics go (`kwire.server.telemetry`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import RandomBytes, random_uuid, uuid_to_text
from kwire.cluster.store.keys import ConfigResource
from kwire.codec.crc import crc32c
from kwire.handlers.telemetry.subscriptions import ClientAttributes, Subscription, Wanted, wanted

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry

CLIENTS_MAX: Final = 16_384
"""Clients that are known at a time; more displace those that were not heard of for the longest time."""
EXPIRY_MS: Final = 60_000
"""The shortest time after which a silent client is forgotten."""
SWEEP_MS: Final = 60_000
INTERVALS_KEPT: Final = 3

Configurations = Mapping[tuple[ConfigResource, str], Mapping[str, str]]
"""The configurations of all resources, by type and name."""


class Receiver(Protocol):
    """Where the metrics of clients go."""

    def receive(self, client: ClientAttributes, principal: str, payload: bytes) -> None:
        """Accept the metrics of one push, OpenTelemetry's ``MetricsData``. ValueError if it is something else."""

    def attributes(self) -> dict[str, float]:
        """Metrics about what was received."""


class TelemetryClient:
    """One client. Times are in milliseconds of a monotonic clock; ``last_get_ms`` and ``last_push_ms`` are None before
    the first request that was admitted."""

    __slots__ = (
        "attributes",
        "connection_id",
        "errors",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "pushes",
        "subscription_id",
        "throttled",
        "used_ms",
        "wanted",
    )

    def __init__(
        self, attributes: ClientAttributes, connection_id: str, wants: Wanted, subscription_id: int, used_ms: int
    ) -> None:
        self.attributes = attributes
        self.connection_id = connection_id
        self.wanted = wants
        self.subscription_id = subscription_id
        self.last_get_ms: int | None = None
        self.last_push_ms: int | None = None
        self.used_ms = used_ms
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.pushes = self.throttled = self.errors = 0

    def admit_get(self, now_ms: int) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED for a question before the interval is over, unless the last push has failed
        with an error that needs another answer."""
        last_ms = max(_or_never(self.last_get_ms), _or_never(self.last_push_ms))
        if now_ms - last_ms >= self.wanted.interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            self._throttle()
        self.last_error = ErrorCode.NONE

    def admit_push(self, now_ms: int, *, terminating: bool) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED for a push before the interval is over, unless it follows an answer or is
        the last one; INVALID_REQUEST after the last one."""
        if self.is_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The client has announced its previous push as its last one.")
        follows_answer = _or_never(self.last_get_ms) > _or_never(self.last_push_ms)
        if follows_answer or now_ms - _or_never(self.last_push_ms) >= self.wanted.interval_ms:
            self.last_push_ms = now_ms
        elif not terminating:
            self._throttle()

    def _throttle(self) -> None:
        self.throttled += 1
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The push interval is not over.")


class TelemetryClients:
    """See the module. ``configurations``: those of the cluster as they are now, the same object until one changes;
    ``receiver``: None if metrics are not forwarded. ``now_ms`` reads a monotonic clock."""

    def __init__(
        self,
        configurations: Callable[[], Configurations],
        receiver: Receiver | None,
        random: RandomBytes,
        now_ms: Callable[[], int],
    ) -> None:
        self.receiver = receiver
        self._source = configurations
        self._random = random
        self._now_ms = now_ms
        self._configurations: Configurations = {}
        self._basis: dict[str, Mapping[str, str]] = {}
        self._subscriptions: list[Subscription] = []
        self._clients: OrderedDict[bytes, TelemetryClient] = OrderedDict()
        self._by_connection: dict[str, bytes] = {}
        self._swept_ms = now_ms()
        self._unknown_subscriptions = 0
        self._throttled = self._pushes = self._errors = 0

    def __len__(self) -> int:
        return len(self._clients)

    def new_id(self) -> bytes:
        """An id that no client has."""
        found = random_uuid(self._random)
        while found in self._clients:
            found = random_uuid(self._random)
        return found

    def question(self, instance_id: bytes, connection_id: str, attributes: ClientAttributes) -> TelemetryClient:
        """A client asks what is wanted of it. Raises THROTTLING_QUOTA_EXCEEDED."""
        client = self._client(instance_id, connection_id, attributes)
        self._counted(client, lambda: client.admit_get(self._now_ms()))
        return client

    def push(
        self,
        instance_id: bytes,
        connection_id: str,
        attributes: ClientAttributes,
        *,
        terminating: bool,
        subscription: int,
    ) -> TelemetryClient:
        """A client pushes metrics by a subscription id. Raises INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED,
        UNKNOWN_SUBSCRIPTION_ID."""
        client = self._client(instance_id, connection_id, attributes)
        try:
            self._counted(client, lambda: client.admit_push(self._now_ms(), terminating=terminating))
            if subscription != client.subscription_id:
                self._unknown_subscriptions += 1
                raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "The subscription has changed.")
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.is_terminating = terminating
        return client

    def pushed(self, client: TelemetryClient, error: ErrorCode) -> None:
        """What became of an admitted push."""
        client.last_error = error
        if error in (ErrorCode.INVALID_RECORD, ErrorCode.TELEMETRY_TOO_LARGE):
            client.errors += 1
            self._errors += 1
        elif not error:
            client.pushes += 1
            self._pushes += 1

    def disconnected(self, connection_id: str) -> None:
        """A connection has closed: its client is forgotten."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._clients.pop(instance_id, None)

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics about the telemetry of clients."""
        metrics.source(self._metrics)

    # -- clients -------------------------------------------------------------------------------------------------------

    def _client(self, instance_id: bytes, connection_id: str, attributes: ClientAttributes) -> TelemetryClient:
        now_ms = self._now_ms()
        self._refresh(now_ms)
        client = self._clients.get(instance_id)
        if client is None:
            client = self._clients[instance_id] = self._new(instance_id, connection_id, attributes, now_ms)
            if len(self._clients) > CLIENTS_MAX:
                _, displaced = self._clients.popitem(last=False)
                self._by_connection.pop(displaced.connection_id, None)
        self._clients.move_to_end(instance_id)
        self._by_connection[connection_id] = instance_id
        client.used_ms = now_ms
        return client

    def _refresh(self, now_ms: int) -> None:
        """Take over changed subscriptions, and forget silent clients."""
        configurations = self._source()
        if configurations is not self._configurations:
            self._configurations = configurations
            kind = ConfigResource.CLIENT_METRICS
            self._subscribe({name: values for (of, name), values in configurations.items() if of is kind and values})
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            silent = [each for each, client in self._clients.items() if now_ms - client.used_ms >= _kept_ms(client)]
            for instance_id in silent:
                self._by_connection.pop(self._clients.pop(instance_id).connection_id, None)

    def _subscribe(self, basis: dict[str, Mapping[str, str]]) -> None:
        """Apply these subscriptions; every client begins anew if one has changed."""
        if basis == self._basis:
            return
        self._basis = basis
        self._subscriptions = [Subscription.of(values) for values in basis.values()]
        for instance_id, client in self._clients.items():
            self._clients[instance_id] = self._new(instance_id, client.connection_id, client.attributes, client.used_ms)

    def _new(
        self, instance_id: bytes, connection_id: str, attributes: ClientAttributes, used_ms: int
    ) -> TelemetryClient:
        wants = wanted(self._subscriptions, attributes)
        return TelemetryClient(attributes, connection_id, wants, _subscription_id(wants, instance_id), used_ms)

    def _counted(self, client: TelemetryClient, admit: Callable[[], None]) -> None:
        before = client.throttled
        try:
            admit()
        finally:
            self._throttled += client.throttled - before

    # -- metrics -------------------------------------------------------------------------------------------------------

    def _metrics(self) -> Iterator[tuple[str, dict[str, Any]]]:
        received = {} if self.receiver is None else self.receiver.attributes()
        yield (
            "kafka.server:type=client-metrics",
            {
                "instance-count": len(self._clients),
                "unknown-subscription-request-count": self._unknown_subscriptions,
                "throttle-count": self._throttled,
                "plugin-export-count": self._pushes,
                "plugin-error-count": self._errors,
                **received,
            },
        )
        for instance_id, client in self._clients.items():
            yield (
                f"kafka.server:type=client-metrics,client_instance_id={uuid_to_text(instance_id)}",
                {
                    "throttle-count": client.throttled,
                    "plugin-export-count": client.pushes,
                    "plugin-error-count": client.errors,
                },
            )


def _or_never(at_ms: int | None) -> float:
    return float("-inf") if at_ms is None else at_ms


def _kept_ms(client: TelemetryClient) -> int:
    return max(EXPIRY_MS, client.wanted.interval_ms * INTERVALS_KEPT)


def _subscription_id(wants: Wanted, instance_id: bytes) -> int:
    """A number that changes with what is wanted and differs between clients, as a signed 32-bit integer."""
    unsigned = crc32c(instance_id, crc32c(repr(wants).encode()))
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
