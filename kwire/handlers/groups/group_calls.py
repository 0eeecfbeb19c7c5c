"""What several handlers of group APIs share.

The coordinator is in `kwire.coordinator.groups`; handlers turn requests into calls and results into responses.
"""

from __future__ import annotations

from functools import partial

from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.coordinator.runtime.machine import Caller
from kwire.handlers.authorization import allowed_topics
from kwire.handlers.context import Purpose, RequestContext
from kwire.security.acls.operations import AclOperation


def caller_of(context: RequestContext) -> Caller:
    """The client as a coordinator sees it."""
    describable = None
    if not context.services.authorizer.allows_all:
        describable = partial(allowed_topics, context, AclOperation.DESCRIBE, purpose=Purpose.CHOICE)
    return Caller(context.client_id or "", context.client_host, context.api_version, describable)


def offers_consumer_groups(context: RequestContext) -> bool:
    """Whether the cluster has finalised `group.version` 1, which groups of the consumer protocol need (KIP-848)."""
    return context.services.image.features.get(GROUP_VERSION, 0) >= 1
