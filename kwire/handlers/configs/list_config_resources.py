"""ListConfigResources (API key 74): the names of the resources that have a configuration.

Behaviour: an empty list of types requests all types. Topics and brokers are always listed, groups and client metrics
only if a property is set for them. A type that cannot be listed: UNSUPPORTED_VERSION.

Versions: 0 client metrics only (KIP-714); 1 any type (KIP-1142).
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.base.config.resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.store.keys import ConfigResource as Resource
from kwire.codec.messages.list_config_resources_request import ListConfigResourcesRequest
from kwire.codec.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

LISTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def operations(request: ListConfigResourcesRequest, context: RequestContext) -> list[Operation]:
    """DESCRIBE_CONFIGS on the cluster, even for the names alone."""
    return [Operation(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)]


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    """List the names, by type."""
    if context.api_version == 0:
        wanted = {CLIENT_METRICS}
    else:
        wanted = set(request.resource_types) or set(LISTED)
    if not wanted <= set(LISTED):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    image = context.services.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in wanted
            for name in _names(kind, image)
        ]
    )


def _names(kind: int, image: ClusterImage) -> Iterator[str]:
    if kind == TOPIC:
        yield from image.topics
    elif kind in (BROKER, BROKER_LOGGER):
        yield from map(str, sorted(image.brokers))
    else:
        yield from (name for resource, name in image.configs if resource == Resource(kind))


API = Api(ApiKey.LIST_CONFIG_RESOURCES, served=(0, 1), handle=handle, operations=operations)
