"""The settings of TLS, from Kafka's properties: typed values of a broker, or the texts of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kwire.base.config.definitions import BROKER_ROWS
from kwire.base.config.values import parse_value

if TYPE_CHECKING:
    from kwire.base.config.values import Row
    from kwire.security.tls.settings import TlsSettings


def tls_settings(value: Callable[[str], Any]) -> TlsSettings:
    """The settings of TLS, from a function that gives the value of a property (``ssl.keystore.location``)."""
    from kwire.security.tls.settings import TlsSettings

    return TlsSettings(**{each.name: value(f"ssl.{each.name.replace('_', '.')}") for each in fields(TlsSettings)})


def tls_settings_of(texts: Mapping[str, str]) -> TlsSettings:
    """The settings of TLS, from texts by the property's name. `ConfigError`."""
    return tls_settings(lambda name: typed_value(texts, BROKER_ROWS[name]))


def typed_value(texts: Mapping[str, str], row: Row) -> Any:
    """The value of a property among texts, or its default. `ConfigError`."""
    return parse_value(row, texts[row[0]]) if row[0] in texts else row[2]
