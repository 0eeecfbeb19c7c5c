"""Requests and responses as text for the log, without passwords.

Keys and tokens are hidden by the messages themselves (`kwire.codec.message`). Here are the values of properties: those
of passwords, and of a broker's properties that are not known. A broker imports this module only when it logs a request.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from kwire.base.config.definitions import broker_row, is_sensitive
from kwire.base.config.values import HIDDEN
from kwire.cluster.store.keys import ConfigResource
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from kwire.handlers.context import RequestContext

_ALTERATIONS: Final = (AlterConfigsRequest, IncrementalAlterConfigsRequest)


def facts_of(context: RequestContext, api: str, total_s: float, shown: tuple[Any, Any] | None = None) -> dict[str, Any]:
    """The fields of the line about a request that is completed, with the request and the response if they are
    ``shown``."""
    facts: dict[str, Any] = {
        "api": api,
        "version": context.api_version,
        "correlation_id": context.correlation_id,
        "client_id": context.client_id,
        "connection": context.connection_id,
        "listener": context.listener,
        "principal": str(context.principal),
        "total_time_ms": round(total_s * 1000, 3),
    }
    if shown is not None:
        facts["request"], facts["response"] = map(loggable, shown)
    return facts


def loggable(message: Any) -> str:
    """`repr` without secrets."""
    if not isinstance(message, _ALTERATIONS):
        return repr(message)
    shown: Any = deepcopy(message)
    for resource in shown.resources:
        for config in resource.configs:
            if config.value and _is_hidden(resource.resource_type, config.name):
                config.value = HIDDEN
    return repr(shown)


def _is_hidden(resource_type: int, name: str) -> bool:
    # A topic's properties are not in the brokers' table; they have no passwords.
    return is_sensitive(name) and (resource_type == ConfigResource.BROKER or broker_row(name) is not None)
