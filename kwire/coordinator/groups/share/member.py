"""A member of a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

LEAVE_EPOCH: Final = -1
"""The member epoch with which a member leaves."""

NOTHING: Final[Mapping[bytes, frozenset[int]]] = MappingProxyType({})
"""No partitions."""


class ShareMember(NamedTuple):
    """What a member has sent about itself, its epochs and its partitions."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Mapping[bytes, frozenset[int]] = NOTHING
