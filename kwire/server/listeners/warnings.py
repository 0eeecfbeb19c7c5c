"""What a broker with secured listeners warns of at start: settings that Kafka has, too, and that give secrets away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.base.config import KafkaConfig
    from kwire.net.listener import BoundSocket
    from kwire.server.listeners.security import BrokerSecurity

_REUSABLE = ("PLAIN", "OAUTHBEARER")


def security_warnings(
    config: KafkaConfig, security: BrokerSecurity, sockets: Sequence[BoundSocket], everything_allowed: bool
) -> Iterator[str]:
    """The warnings, a line each. ``everything_allowed``: there is no authorizer."""
    beyond = {bound.endpoint.listener for bound in sockets if not bound.is_loopback}
    for name, listener in security.listeners.items():
        used = [each for each in listener.mechanisms if each in _REUSABLE]
        if used and name in beyond and listener.endpoint.security_protocol == "SASL_PLAINTEXT":
            yield (
                f"listener {name}: clients send passwords or tokens unencrypted ({', '.join(used)} on SASL_PLAINTEXT),"
                f" and other hosts reach it: use SASL_SSL"
            )
    if config.delegation_token_secret_key and everything_allowed:
        yield (
            "delegation.token.secret.key is set and there is no authorizer: every user can describe all delegation"
            " tokens, and log in with them"
        )
    stored = security.has_scram or config.delegation_token_secret_key
    if config.zookeeper_connect and not config.zookeeper_set_acl and stored:
        yield (
            "zookeeper.set.acl is not set: whoever reaches ZooKeeper can read and change SCRAM credentials and"
            " delegation tokens"
        )
