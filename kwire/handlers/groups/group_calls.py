"""What several handlers of group APIs share.

The coordinator is in `kwire.coordinator.groups`; handlers turn requests into calls and results into responses.
"""

from __future__ import annotations

from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.coordinator.runtime.machine import Caller
from kwire.handlers.context import RequestContext


def caller_of(context: RequestContext) -> Caller:
    """The client as a coordinator remembers it."""
    return Caller(context.client_id or "", context.client_host, context.api_version)


def offers_consumer_groups(context: RequestContext) -> bool:
    """Whether the cluster has finalised `group.version` 1, which groups of the consumer protocol need (KIP-848)."""
    return context.services.image.features.get(GROUP_VERSION, 0) >= 1
