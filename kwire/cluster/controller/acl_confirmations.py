"""All brokers decide by the newest access control entries before their change is acknowledged.

Every change of the entries also writes the key ``acl-change``. A broker whose authorizer decides by a change writes its
confirmation, in a commit that fails if there is a newer change by then, and which vanishes with the broker's session.
The controller acknowledges a change when every other broker either has confirmed it or is no longer registered. So
nothing is served that was forbidden before the request was sent: a broker without a session serves nothing
(`Membership.stands`). Kafka acknowledges a change when the controllers have it, and brokers follow soon.

What lives elsewhere: the changes (`acls`), deciding (`kwire.handlers.acl_authorizer`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, Conflict, SessionLost, StoreError, Write

if TYPE_CHECKING:
    from kwire.cluster.controller.membership import Membership
    from kwire.cluster.metadata.image import ClusterImage, MetadataCache
    from kwire.cluster.store.store import MetadataStore

WAIT_S: Final = 25.0
"""How long a change waits for brokers to confirm it: longer than their session with the store lasts without contact,
and less than Kafka's tools wait for a response."""

RETRY_S: Final = 0.1

_logger = get_logger("kwire.cluster.acls")


async def confirmed(metadata: MetadataCache, broker_id: int) -> None:
    """Return when all brokers decide by the newest change that this broker knows. REQUEST_TIMED_OUT if some do not; the
    change stays."""
    change = metadata.version(keys.ACL_CHANGE)
    if not await metadata.until(lambda image: not _unconfirmed(image, metadata, broker_id, change), WAIT_S):
        late = ", ".join(map(str, _unconfirmed(metadata.image, metadata, broker_id, change)))
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"The ACLs are changed, but brokers may not decide by them yet: {late}"
        )


def _unconfirmed(image: ClusterImage, metadata: MetadataCache, broker_id: int, change: int) -> list[int]:
    """The other brokers that were registered before a change and have not confirmed it."""
    return [
        other.id
        for other in image.brokers.values()
        if other.id != broker_id and metadata.version(keys.acl_confirmation_key(other.id)) < change > other.epoch
    ]


class AclConfirmer:
    """Confirms the changes that this broker's authorizer decides by. Make it a listener after the authorizer."""

    def __init__(self, store: MetadataStore, metadata: MetadataCache, membership: Membership, broker_id: int) -> None:
        self._store = store
        self._metadata = metadata
        self._membership = membership
        self._broker_id = broker_id
        self._confirmed = ABSENT
        self._task: asyncio.Task[None] | None = None

    def follow(self, image: ClusterImage, _delta: object = None) -> None:
        """Confirm a change of the entries, if there is one that other brokers may wait for."""
        change = self._metadata.version(keys.ACL_CHANGE)
        if change == self._confirmed or not self._is_awaited(image, change):
            return
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._confirm(), name="confirm ACLs")

    def close(self) -> None:
        """Confirm nothing more."""
        if self._task is not None:
            self._task.cancel()

    def _is_awaited(self, image: ClusterImage, change: int) -> bool:
        """Whether this broker was registered before the change, beside others."""
        me = image.brokers.get(self._broker_id)
        return me is not None and len(image.brokers) > 1 and me.epoch < change

    async def _confirm(self) -> None:
        while self._membership.alive:
            change = self._metadata.version(keys.ACL_CHANGE)
            if change == self._confirmed:
                return
            try:
                await self._write(change)
            except SessionLost:
                return
            except StoreError as error:
                _logger.warning("a change of ACLs is not confirmed yet", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _write(self, change: int) -> None:
        key = keys.acl_confirmation_key(self._broker_id)
        try:
            await self._store.commit(
                [Check(keys.ACL_CHANGE, change)], [Write(key, keys.pack(), self._membership.session_id)]
            )
        except Conflict:
            revision, _ = await self._store.read(keys.ACL_CHANGE)
            await self._metadata.wait_for(revision)
        else:
            self._confirmed = change


__all__ = ["AclConfirmer", "confirmed"]
