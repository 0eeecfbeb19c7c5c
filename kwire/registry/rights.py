"""Which right an instance lacks: the cluster's refusals, in words that name the operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kwire.base.errors import ErrorCode
from kwire.cli.connection.errors import CommandError

_REFUSED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class Forbidden(CommandError):
    """This instance's login has no right to an operation that the registry needs."""


@contextmanager
def needing(operation: str, resource: str) -> Iterator[None]:
    """Raise `Forbidden`, which names an operation on a resource (``topic NAME``), if the cluster does not allow it."""
    try:
        yield
    except CommandError as error:
        if isinstance(error, Forbidden) or error.code not in _REFUSED:
            raise
        name = ErrorCode(error.code).name
        raise Forbidden(f"{resource}: the registry's login has no right to {operation} ({name})", error.code) from None
