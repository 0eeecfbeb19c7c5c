"""What the error codes of Produce mean to those who write."""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import PASSING

RETRIED: Final = frozenset(
    {
        *PASSING,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The same batch may be taken when it is sent again."""
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""It never will be, unless it is divided."""
