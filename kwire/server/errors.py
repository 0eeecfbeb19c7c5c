"""The exception of a failed start; wrong properties raise `kwire.base.config.ConfigError`."""

from __future__ import annotations


class StartError(Exception):
    """The broker cannot start; the message is one line for people."""
