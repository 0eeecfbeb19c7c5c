"""How many connections per second are accepted (KIP-402, KIP-612): by the broker, by each listener, from each address.

- A connection beyond the rate of its listener, or of the broker, waits before it is served, and with it all others of
  its listener. The listener of other brokers only has its own rate, unless it is the only one.
- A connection beyond the rate of its address is closed when the throttle time has passed; it does not count.
- A throttle time is at most one window long (`quota.window.size.seconds`).

What lives elsewhere: accepting, waiting and closing (`kwire.net.listener`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.base.samples import Samples
from kwire.quotas.entities import IP
from kwire.quotas.limits import ClientLimits, canonical_address
from kwire.quotas.managers import EXPIRY_MS, SWEEP_MS
from kwire.quotas.sensors import Attributes, RateSensor, Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.base.metrics import MetricsRegistry
    from kwire.quotas.managers import HasQuotas

UNLIMITED: Final = float(2**31 - 1)
"""`max.connection.creation.rate` without a limit."""

RATE: Final = "connection-accept-rate"
_PREFIX: Final = "kafka.server:type=socket-server-metrics"


class _ListenerRate:
    """What is measured of one listener."""

    __slots__ = ("address_throttle_times", "sensor", "throttle_times")

    def __init__(self, sensor: RateSensor, clock: Callable[[], float]) -> None:
        self.sensor = sensor
        self.throttle_times = Samples(clock)
        self.address_throttle_times = Samples(clock)

    def attributes(self, now_ms: int) -> Attributes:
        """What the metrics show."""
        return {
            RATE: self.sensor.rate.per_second(now_ms),
            "connection-accept-throttle-time": self.throttle_times.average(),
            "ip-connection-accept-throttle-time": self.address_throttle_times.average(),
        }


def _charge(sensor: RateSensor, now_ms: int) -> int:
    """Record a connection. Returns the throttle time; without a limit, nothing has to be measured for it."""
    if sensor.bound < UNLIMITED:
        return sensor.charge(1, now_ms)
    sensor.rate.record(1, now_ms)
    return 0


class ConnectionRates:
    """The rates of a broker's new connections. ``clock``: a monotonic clock in seconds. ``protected``: the listener of
    other brokers, if there are others beside it."""

    def __init__(
        self, clock: Callable[[], float], windows: Windows | None = None, protected: str | None = None
    ) -> None:
        self._clock = clock
        self._windows = windows or Windows()
        self._protected = protected
        self._basis: object = None
        self._limits = ClientLimits({})
        self._broker = self._sensor(UNLIMITED)
        self._listeners: dict[str, _ListenerRate] = {}
        self._addresses: dict[str, RateSensor] = {}
        self._swept_ms = 0

    def _sensor(self, bound: float) -> RateSensor:
        windows = self._windows
        return RateSensor(self._clock, self.now_ms(), windows, bound, metric=RATE, longest_ms=windows.ms)

    def now_ms(self) -> int:
        """The time by the clock of the rates."""
        return int(self._clock() * 1000)

    def limit_broker(self, rate: float) -> None:
        """Set the connections per second of the broker."""
        self._broker.bind(rate)

    def limit_listener(self, listener: str, rate: float) -> None:
        """Set the connections per second of a listener."""
        self._listener(listener).sensor.bind(rate)

    def _listener(self, listener: str) -> _ListenerRate:
        found = self._listeners.get(listener)
        if found is None:
            found = self._listeners[listener] = _ListenerRate(self._sensor(UNLIMITED), self._clock)
        return found

    def follow(self, image: HasQuotas, _delta: object = None) -> None:
        """Apply the limits of addresses in this image from the next connection on."""
        if image.client_quotas is not self._basis:
            self._basis = image.client_quotas
            quotas = image.client_quotas.items()
            # An address has no other name beside it.
            addresses = {entity: limits for entity, limits in quotas if entity.names[0][0] == IP}
            self.limit_addresses(ClientLimits(addresses))

    def limit_addresses(self, limits: ClientLimits) -> None:
        """Apply these limits of addresses. What was measured stays."""
        self._limits = limits

    def accepted(self, listener: str) -> int:
        """A listener has a new connection. Returns how many milliseconds it has to wait."""
        now_ms = self.now_ms()
        throttle_ms = 0 if listener == self._protected else _charge(self._broker, now_ms)
        rate = self._listener(listener)
        throttle_ms = max(throttle_ms, _charge(rate.sensor, now_ms))
        if throttle_ms:
            rate.throttle_times.record(throttle_ms)
        return throttle_ms

    def refused_ms(self, listener: str, host: str) -> int:
        """After how many milliseconds a new connection from an address is closed; 0: it is served."""
        limit = self._limits.ip_limit(host)
        if limit is None:
            return 0
        now_ms = self.now_ms()
        sensor = self._address(canonical_address(host), limit, now_ms)
        throttle_ms = sensor.charge(1, now_ms)
        if throttle_ms:
            sensor.rate.record(-1, now_ms)
            self._listener(listener).address_throttle_times.record(throttle_ms)
        return throttle_ms

    def _address(self, address: str, limit: float, now_ms: int) -> RateSensor:
        sensor = self._addresses.get(address)
        if sensor is None:
            self._drop_unused(now_ms)
            sensor = self._addresses[address] = self._sensor(limit)
        sensor.bind(limit)
        sensor.used_ms = now_ms
        return sensor

    def _drop_unused(self, now_ms: int) -> None:
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._addresses = {
                address: each for address, each in self._addresses.items() if each.used_ms > now_ms - EXPIRY_MS
            }

    def add_metrics(self, metrics: MetricsRegistry, listeners: Iterable[str]) -> None:
        """Register Kafka's metrics, those of the listeners from the start."""
        for listener in listeners:
            self._listener(listener)
        metrics.source(self._metrics)

    def _metrics(self) -> Iterator[tuple[str, Attributes]]:
        now_ms = self.now_ms()
        self._drop_unused(now_ms)
        yield _PREFIX, {"broker-" + RATE: self._broker.rate.per_second(now_ms)}
        for listener, rate in self._listeners.items():
            yield f"{_PREFIX},listener={listener}", rate.attributes(now_ms)
        for address, sensor in self._addresses.items():
            yield f"{_PREFIX},ip={address}", {RATE: sensor.rate.per_second(now_ms)}
