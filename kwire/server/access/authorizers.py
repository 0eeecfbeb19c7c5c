"""The authorizer that the configuration names (`authorizer.class.name`), checked at start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.config import ConfigError
from kwire.handlers.context import Authorizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.base.config import KafkaConfig


def configured_authorizer(config: KafkaConfig, monotonic: Callable[[], float] | None = None) -> Authorizer:
    """One that allows everything unless a class is named. `ConfigError` for wrong settings of that class."""
    name = config.authorizer_class_name
    if not name:
        return Authorizer()
    from kwire.handlers.acl_authorizer import AclAuthorizer
    from kwire.security.principals import parse_principals

    text = config.static.get("super.users", "")
    try:
        super_users = parse_principals(text)
    except ValueError as error:
        raise ConfigError("super.users", text, f"must be principals with semicolons between them: {error}") from None
    open_to_all = config.static.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if open_to_all not in ("true", "false"):
        raise ConfigError("allow.everyone.if.no.acl.found", open_to_all, "must be true or false")
    return AclAuthorizer(
        {str(each) for each in super_users}, open_without_entries=open_to_all == "true", monotonic=monotonic
    )
