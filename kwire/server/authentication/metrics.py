"""The metrics of authentication on a listener: those of Kafka's `Selector`, in `socket-server-metrics`.

A login counts as one authentication, a new login on the same connection as a reauthentication (KIP-368). On SSL
listeners the TLS handshake is the authentication; on SASL_SSL listeners it counts only if it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.base.metrics import MetricsRegistry


class Event:
    """Something that happens: ``NAME-total`` is how often, ``NAME-rate`` how often per second lately."""

    def __init__(self, metrics: MetricsRegistry, name: str, monotonic: Callable[[], float]) -> None:
        self._total = metrics.counter(f"{name}-total")
        self._lately = Samples(monotonic)
        metrics.gauge(f"{name}-rate", self._lately.rate)

    def count(self) -> None:
        """It has happened."""
        self._total.value += 1
        self._lately.record()


class LoginMetrics:
    """The metrics of one listener. ``monotonic``: a clock in seconds."""

    def __init__(self, metrics: MetricsRegistry, listener: str, monotonic: Callable[[], float]) -> None:
        prefix = f"kafka.server:type=socket-server-metrics,listener={listener},name="
        self._successful = Event(metrics, f"{prefix}successful-authentication", monotonic)
        self._successful_no_reauth = metrics.counter(f"{prefix}successful-authentication-no-reauth-total")
        self._successful_reauth = Event(metrics, f"{prefix}successful-reauthentication", monotonic)
        self._latency_ms = Samples(monotonic)
        metrics.gauge(f"{prefix}reauthentication-latency-avg", self._latency_ms.average)
        metrics.gauge(f"{prefix}reauthentication-latency-max", self._latency_ms.maximum)
        self.failed = Event(metrics, f"{prefix}failed-authentication", monotonic)
        self.failed_reauth = Event(metrics, f"{prefix}failed-reauthentication", monotonic)
        self.expired = metrics.counter(f"{prefix}expired-connections-killed-count")

    def authenticated(self, can_repeat: bool) -> None:
        """A client has authenticated. ``can_repeat``: it can do so again on the same connection."""
        self._successful.count()
        self._successful_no_reauth.value += not can_repeat

    def reauthenticated(self, latency_s: float) -> None:
        """A client has authenticated again, which took so long since its SaslHandshake."""
        self._successful_reauth.count()
        self._latency_ms.record(round(latency_s * 1000))

    def handshake_ended(self, succeeded: bool) -> None:
        """For `ListenerSetup.on_handshake`."""
        if succeeded:
            self.authenticated(can_repeat=False)
        else:
            self.failed.count()
