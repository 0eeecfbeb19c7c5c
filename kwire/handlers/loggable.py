"""Requests and responses as text for the log, without passwords.

Keys and tokens are hidden by the messages themselves (`kwire.codec.message`). Here are the values of properties: those
of passwords, and of a broker's properties that are not known. A broker imports this module only when it logs a request.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from kwire.base.config.definitions import broker_row, is_sensitive
from kwire.base.config.values import HIDDEN
from kwire.cluster.store.keys import ConfigResource
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

_ALTERATIONS: Final = (AlterConfigsRequest, IncrementalAlterConfigsRequest)


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
