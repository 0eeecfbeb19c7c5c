"""The one exception that a broker's start ends with, apart from `kwire.base.config.ConfigError`."""

from __future__ import annotations


class StartError(Exception):
    """The broker cannot start; the message is one line for people."""
