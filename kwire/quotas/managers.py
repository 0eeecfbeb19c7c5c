"""`QuotaManagers`: what each client may use, what it has used, and how long it is throttled (Kafka's
`ClientQuotaManager`, `ClientRequestQuotaManager` and `ControllerMutationQuotaManager`).

- Clients that share a limit share a sensor (`limits.Limit`). A sensor that nobody has used for an hour is dropped, so
  memory is bounded by the clients of an hour.
- A request whose rate exceeds its limit is served, and the client is throttled for as long as it takes for the rate to
  come down to the limit; of two violated quotas, the longer throttle time counts. Only throttle times of
  `request_percentage` are bounded: by one window.
- A Fetch that is throttled gets an empty response, so its bytes do not count.
- ``active`` is false while nobody has a limit. Then nothing here is called.

What lives elsewhere: muting connections (`kwire.net`), when a request is charged (`kwire.server.dispatch`, Fetch's
handler), the rates of connections (`connections`).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.base.quota import UNBOUNDED, MutationQuota
from kwire.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kwire.quotas.limits import ClientLimits
from kwire.quotas.mutations import BoundedMutationQuota
from kwire.quotas.rates import Rate
from kwire.quotas.sensors import Attributes, MutationSensor, RateSensor, Sensor, Windows, metric_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.base.metrics import MetricsRegistry
    from kwire.quotas.entities import ClientQuotas

EXPIRY_MS: Final = 3_600_000
"""A sensor that has not been used for this long is dropped, as in Kafka."""

SWEEP_MS: Final = 60_000
UNLIMITED_BYTES: Final = 2**31 - 1

KINDS: Final = {
    PRODUCER_BYTE_RATE: "Produce",
    CONSUMER_BYTE_RATE: "Fetch",
    REQUEST_PERCENTAGE: "Request",
    CONTROLLER_MUTATION_RATE: "ControllerMutation",
}
"""Kafka's names of the quotas in metrics, by quota key."""

_PER_CENT: Final = 100.0


class HasQuotas(Protocol):
    """The part of the cluster's image that has quotas."""

    @property
    def client_quotas(self) -> ClientQuotas:
        """All quotas of the cluster."""


CLIENTS_MAX: Final = 16_384
"""Clients whose sensors are known by one look-up; more begin anew."""

CLIENT_NAME_MAX: Final = 512
"""Characters in the names of such a client, user and client id. A client chooses its id for every request, with up to
32,767 characters: it must not fill the memory with them."""


class ClientSensors:
    """The sensors of one client; None where it has no limit."""

    __slots__ = ("fetch", "mutation", "produce", "request", "used_ms")

    def __init__(
        self,
        produce: RateSensor | None,
        fetch: RateSensor | None,
        request: RateSensor | None,
        mutation: MutationSensor | None,
        now_ms: int,
    ) -> None:
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutation = mutation
        self.used_ms = now_ms

    def use(self, now_ms: int) -> None:
        """The client has sent a request: its sensors are needed for another hour."""
        self.used_ms = now_ms
        for sensor in (self.produce, self.fetch, self.request, self.mutation):
            if sensor is not None:
                sensor.used_ms = now_ms


class QuotaManagers:
    """The quotas of a broker's clients. ``clock``: a monotonic clock in seconds, by which metrics are read; the other
    methods are given ``now_ms``, milliseconds of it. ``windows`` are those of rates, ``controller_windows`` those of
    controller mutations (`controller.quota.window.num`, `controller.quota.window.size.seconds`)."""

    def __init__(
        self, clock: Callable[[], float], windows: Windows | None = None, controller_windows: Windows | None = None
    ) -> None:
        self._clock = clock
        self._windows = windows or Windows()
        self._controller_windows = controller_windows or Windows()
        self._basis: ClientQuotas = {}
        self._limits = self._indexed = ClientLimits({})
        self._clients: dict[tuple[str, str], ClientSensors] = {}
        self._sensors: dict[tuple[str, str | None, str | None], Any] = {}
        self._exempt = Rate(self._windows.number, self._windows.ms)
        self._throttled: dict[str, list[int]] = {key: [] for key in KINDS}  # heaps of the ends of throttle times
        self._swept_ms = 0
        self.active = False

    def now_ms(self) -> int:
        """The time by the clock of the quotas."""
        return int(self._clock() * 1000)

    def follow(self, image: HasQuotas, _delta: object = None) -> None:
        """Apply the limits of this image from the next request on."""
        if image.client_quotas is not self._basis:
            before, self._basis = self._basis, image.client_quotas
            self._indexed = self._indexed.changed(before, image.client_quotas)
            self.limit_by(self._indexed)

    def limit_by(self, limits: ClientLimits) -> None:
        """Apply these limits. What was measured stays."""
        self._limits = limits
        self._clients = {}
        self.active = any(limits.has(key) for key in KINDS)

    # -- whose usage counts where -------------------------------------------------------------------------------------

    def client(self, user: str, client_id: str | None, now_ms: int) -> ClientSensors:
        """The sensors of a client, by the name of its principal and its client id."""
        key = (user, client_id or "")
        found = self._clients.get(key)
        if found is None:
            self._drop_unused(now_ms)
            found = ClientSensors(
                self._sensor(PRODUCER_BYTE_RATE, *key, now_ms),
                self._sensor(CONSUMER_BYTE_RATE, *key, now_ms),
                self._sensor(REQUEST_PERCENTAGE, *key, now_ms),
                self._sensor(CONTROLLER_MUTATION_RATE, *key, now_ms),
                now_ms,
            )
            self._keep(key, found)
        if now_ms - found.used_ms >= SWEEP_MS:
            found.use(now_ms)
        return found

    def _keep(self, key: tuple[str, str], client: ClientSensors) -> None:
        if len(key[0]) + len(key[1]) > CLIENT_NAME_MAX:
            return
        if len(self._clients) >= CLIENTS_MAX:
            self._clients = {}
        self._clients[key] = client

    def _sensor(self, quota_key: str, user: str, client_id: str, now_ms: int) -> Any | None:
        limit = self._limits.limit(quota_key, user, client_id)
        if limit is None:
            return None
        key = (quota_key, limit.user, limit.client_id)
        sensor = self._sensors.get(key)
        if sensor is None:
            sensor = self._sensors[key] = self._new_sensor(quota_key, limit.value, now_ms)
        else:
            sensor.bind(limit.value)
        sensor.used_ms = now_ms
        return sensor

    def _new_sensor(self, quota_key: str, bound: float, now_ms: int) -> Sensor:
        if quota_key == CONTROLLER_MUTATION_RATE:
            return MutationSensor(self._clock, now_ms, self._controller_windows, bound)
        if quota_key == REQUEST_PERCENTAGE:
            windows = self._windows
            return RateSensor(self._clock, now_ms, windows, bound, metric="request-time", longest_ms=windows.ms)
        return RateSensor(self._clock, now_ms, self._windows, bound)

    def _drop_unused(self, now_ms: int) -> None:
        """Drop what was not used for an hour. Called when something new is needed, at most once a minute."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        oldest = now_ms - EXPIRY_MS
        self._clients = {key: each for key, each in self._clients.items() if each.used_ms > oldest}
        self._sensors = {key: each for key, each in self._sensors.items() if each.used_ms > oldest}

    # -- requests are charged -----------------------------------------------------------------------------------------

    def charge_produce(self, client: ClientSensors, size: int, busy_s: float, acks: int, now_ms: int) -> int:
        """A Produce request of ``size`` bytes was handled in ``busy_s`` seconds. Returns the throttle time. The time of
        a request with acks=0 is exempt, its bytes are not."""
        bytes_ms = client.produce.charge(size, now_ms) if client.produce is not None else 0
        if not acks:
            self.charge_exempt(busy_s, now_ms)
            time_ms = 0
        else:
            time_ms = self._charge_time(client, busy_s, now_ms)
        return self._throttle(PRODUCER_BYTE_RATE, client.produce, bytes_ms, client, time_ms, now_ms)

    def charge_fetch(self, client: ClientSensors, size: int, busy_s: float, now_ms: int) -> int:
        """A consumer's Fetch would get a response of ``size`` bytes. Returns the throttle time; unless it is 0, the
        response has to be empty."""
        time_ms = self._charge_time(client, busy_s, now_ms)
        sensor = client.fetch
        bytes_ms = sensor.charge(size, now_ms) if sensor is not None else 0
        if sensor is not None and (bytes_ms or time_ms):
            sensor.rate.record(-size, now_ms)
        return self._throttle(CONSUMER_BYTE_RATE, sensor, bytes_ms, client, time_ms, now_ms)

    def charge_request(self, client: ClientSensors, busy_s: float, now_ms: int, other_ms: int = 0) -> int:
        """Any other request was handled. ``other_ms``: the throttle time that its response has already, for controller
        mutations, maybe from another broker. Returns the longer one."""
        time_ms = self._charge_time(client, busy_s, now_ms)
        if time_ms and time_ms >= other_ms:
            self._note(REQUEST_PERCENTAGE, client.request, time_ms, now_ms)
        elif other_ms and client.mutation is not None:
            self._note(CONTROLLER_MUTATION_RATE, client.mutation, other_ms, now_ms)
        return max(time_ms, other_ms)

    def charge_exempt(self, busy_s: float, now_ms: int) -> None:
        """A request that is not limited, such as a follower's Fetch, was handled."""
        self._exempt.record(busy_s * _PER_CENT, now_ms)

    def charge_sending(self, client: ClientSensors, busy_s: float, now_ms: int) -> None:
        """A response was sent: counted, but it does not throttle."""
        if client.request is not None:
            client.request.rate.record(busy_s * _PER_CENT, now_ms)

    @staticmethod
    def _charge_time(client: ClientSensors, busy_s: float, now_ms: int) -> int:
        return client.request.charge(busy_s * _PER_CENT, now_ms) if client.request is not None else 0

    def _throttle(
        self, key: str, sensor: RateSensor | None, bytes_ms: int, client: ClientSensors, time_ms: int, now_ms: int
    ) -> int:
        if bytes_ms > time_ms:
            self._note(key, sensor, bytes_ms, now_ms)
            return bytes_ms
        if time_ms:
            self._note(REQUEST_PERCENTAGE, client.request, time_ms, now_ms)
        return time_ms

    def _note(self, key: str, sensor: Sensor | None, throttle_ms: int, now_ms: int) -> None:
        assert sensor is not None
        sensor.throttled(throttle_ms)
        self._count_throttled(key, now_ms)
        heappush(self._throttled[key], now_ms + throttle_ms)

    def fetch_bytes_max(self, client: ClientSensors) -> int:
        """The most bytes that a Fetch can get without certainly being throttled."""
        if client.fetch is None:
            return UNLIMITED_BYTES
        seconds = (self._windows.number - 1) * self._windows.seconds
        return int(min(client.fetch.bound * seconds, UNLIMITED_BYTES))

    # -- controller mutations -----------------------------------------------------------------------------------------

    def mutation_quota(self, user: str, client_id: str | None, *, is_strict: bool) -> MutationQuota:
        """What one request for controller mutations pays with."""
        sensor = self.client(user, client_id, self.now_ms()).mutation
        return UNBOUNDED if sensor is None else BoundedMutationQuota(sensor, self.now_ms, is_strict=is_strict)

    # -- metrics ------------------------------------------------------------------------------------------------------

    def _count_throttled(self, key: str, now_ms: int) -> int:
        ends = self._throttled[key]
        while ends and ends[0] <= now_ms:
            heappop(ends)
        return len(ends)

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics of quotas: of those who have used a limit in the last hour."""
        metrics.source(self._metrics)

    def _metrics(self) -> Iterator[tuple[str, Attributes]]:
        now_ms = self.now_ms()
        self._drop_unused(now_ms)
        for key, kind in KINDS.items():
            attributes: Attributes = {"queue-size": self._count_throttled(key, now_ms)}
            if key == REQUEST_PERCENTAGE:
                attributes["exempt-request-time"] = self._exempt.per_second(now_ms)
            yield f"kafka.server:type={kind}", attributes
        for (key, user, client_id), sensor in self._sensors.items():
            yield f"kafka.server:type={KINDS[key]}{metric_tags(user, client_id)}", sensor.attributes(now_ms)
