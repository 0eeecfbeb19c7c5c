"""The settings of a listener's logins, from its properties. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kwire.security.sasl.mechanism import ServerExchange

RECEIVE_MAX_BYTES: Final = 512 * 1024
"""The default of `sasl.server.max.receive.size`."""


class Mechanism(NamedTuple):
    """An enabled mechanism."""

    begin: Callable[[], ServerExchange]
    """Makes the broker's side of a login."""
    max_reauth_ms: int = 0
    """`connections.max.reauth.ms`: the longest time until a client must log in again; 0: no limit."""


class LoginSettings(NamedTuple):
    """The logins of one listener."""

    mechanisms: Mapping[str, Mechanism]
    """By SASL name: `sasl.enabled.mechanisms`."""
    protocol: str
    """The listener's security protocol: ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
    receive_max_bytes: int = RECEIVE_MAX_BYTES
    """`sasl.server.max.receive.size`."""
    failed_delay_ms: int = 100
    """`connection.failed.authentication.delay.ms`."""
