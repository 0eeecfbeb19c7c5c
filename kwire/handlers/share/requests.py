"""What ShareFetch and ShareAcknowledge check alike, before anything is done (in Kafka's order)."""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.authorization import group_operation, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import offers_share_groups
from kwire.handlers.share.sessions import SessionKey
from kwire.security.acls.operations import AclOperation

_MEMBER_ID_MAX: Final = 36
"""Characters of a member id: it is a UUID."""


def session_key(group_id: str | None, member_id: str | None, context: RequestContext) -> SessionKey:
    """Whose session a request is about. KafkaError: UNSUPPORTED_VERSION, INVALID_REQUEST, ``..._FAILED``."""
    if not offers_share_groups(context):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    require(context, group_operation(AclOperation.READ, group_id))
    if not member_id or len(member_id) > _MEMBER_ID_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)
