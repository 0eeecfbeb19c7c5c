"""`Election`: who leads, by a group of the cluster.

The instances are members of a group with the protocol type ``sr`` and the JSON of Confluent's registries, so that both
kinds on one topic have one leader between them. The group's own leader names the member whose address sorts first. A
group can be late to notice that a member is gone: it decides who tries to lead, the fence (`kwire.registry.topic`) who
does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.base.logging import get_logger
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.registry.rights import Forbidden, needing
from kwire.registry.topic import Place

_log = get_logger("kwire.registry")
_TYPE: Final = "sr"
_PROTOCOL: Final = "v0"
_SESSION_MS: Final = 6_000
"""The shortest that brokers allow by default."""
_REBALANCE_MS: Final = 10_000
_HEARTBEAT_S: Final = 1.0
_PAUSE_S: Final = 0.2
_VERSIONS: Final = {"join": 5, "sync": 3, "heartbeat": 3, "leave": 3}
_AGAIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class Identity(NamedTuple):
    """An instance, as the others reach it."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def encoded(self) -> dict[str, Any]:
        """The JSON of a member."""
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": True,
            "scheme": self.scheme,
        }


class Election:
    """Membership of this instance. ``changed`` is called with the leader, or None while there is none, ``refused`` when
    the cluster does not let it be a member."""

    def __init__(
        self,
        place: Place,
        group: str,
        identity: Identity,
        changed: Callable[[Identity | None], None],
        refused: Callable[[Forbidden], None],
    ) -> None:
        self._place = place
        self._group = group
        self._identity = identity
        self._changed = changed
        self._refused = refused
        self._member = ""
        self._generation = -1
        self._cluster: Cluster | None = None

    async def run(self) -> None:
        """Be a member for ever."""
        while True:
            try:
                self._cluster = self._place.cluster()
                await self._cluster.connect()
                with needing("READ", f"group {self._group}"):
                    await self._belong(self._cluster)
            except Forbidden as error:
                self._changed(None)
                self._refused(error)
            except CommandError as error:
                self._changed(None)
                _log.warning("this instance is no member of the group", group=self._group, error=str(error))
            finally:
                if self._cluster is not None:
                    self._cluster.close()
            await asyncio.sleep(_PAUSE_S)

    async def _belong(self, cluster: Cluster) -> None:
        while True:
            self._changed(await self._joined(cluster))
            await self._kept(cluster)
            self._changed(None)

    async def leave(self) -> None:
        """Leave the group, so that another instance leads at once."""
        cluster = self._cluster
        if cluster is None or not self._member:
            return
        request = LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=self._member)])
        try:
            await self._asked(cluster, request, "leave")
        except CommandError as error:
            _log.warning("the group cannot be left", error=str(error))

    async def _joined(self, cluster: Cluster) -> Identity | None:
        """Join; the leader that the group's own leader has named."""
        while True:
            joined = await self._asked(cluster, self._join_request(), "join")
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member = joined.member_id
            elif joined.error_code in _AGAIN:
                self._forget(joined.error_code)
                await asyncio.sleep(_PAUSE_S)
            else:
                check(joined.error_code, f"group {self._group}")
                self._member, self._generation = joined.member_id, joined.generation_id
                synced = await self._asked(cluster, self._sync_request(joined), "sync")
                if synced.error_code not in _AGAIN:
                    check(synced.error_code, f"group {self._group}")
                    return _leader(synced.assignment)
                self._forget(synced.error_code)

    def _forget(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member = ""

    def _join_request(self) -> JoinGroupRequest:
        metadata = json.dumps(self._identity.encoded()).encode()
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member,
            protocol_type=_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments = []
        if joined.leader == joined.member_id:
            content = _assignment({each.member_id: bytes(each.metadata) for each in joined.members})
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=content) for each in joined.members
            ]
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member,
            assignments=assignments,
        )

    async def _kept(self, cluster: Cluster) -> None:
        """Send heartbeats until the members change."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member)
            response = await self._asked(cluster, request, "heartbeat")
            if response.error_code in _AGAIN:
                self._forget(response.error_code)
                return
            check(response.error_code, f"group {self._group}")

    async def _asked(self, cluster: Cluster, request: Any, kind: str) -> Any:
        cluster.extend()
        return await cluster.at_coordinator(
            self._group, request, lambda response: int(response.error_code), max_version=_VERSIONS[kind]
        )


def _assignment(members: dict[str, bytes]) -> bytes:
    """What every member is told: who leads."""
    eligible = []
    for member, metadata in members.items():
        identity = _identity(_json(metadata))
        if identity is not None and _json(metadata).get("master_eligibility", True):
            eligible.append((identity.url, member, _json(metadata)))
    if not eligible:
        return json.dumps({"version": 1, "error": 0, "master": None, "master_identity": None}).encode()
    _, member, fields = min(eligible, key=lambda each: each[:2])
    return json.dumps({"version": 1, "error": 0, "master": member, "master_identity": fields}).encode()


def _leader(assignment: bytes) -> Identity | None:
    return _identity(_json(bytes(assignment)).get("master_identity"))


def _identity(fields: Any) -> Identity | None:
    if not isinstance(fields, dict):
        return None
    host, port = fields.get("host"), fields.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    return Identity(str(fields.get("scheme", "http")), host, port)


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
