"""What can be wrong with a schema, or with bytes that one describes."""

from __future__ import annotations


class SchemaError(Exception):
    """A text is no schema of its type, or goes beyond a limit (`kwire.schemas.limits`). The message is one line."""


class DecodeError(Exception):
    """Bytes that do not fit a schema, or have no frame of the wire format. The message is one line."""
