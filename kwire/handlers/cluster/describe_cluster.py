"""DescribeCluster (API key 60): the brokers, the controller and the id of the cluster.

Behaviour:

- Endpoint type 1 (brokers) is served. 2 (controllers): MISMATCHED_ENDPOINT_TYPE, as there are no controller listeners;
  any other: UNSUPPORTED_ENDPOINT_TYPE.
- Brokers that are registered but not running are included on request only, as fenced.

Versions: 1 endpoint type (KIP-919); 2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode
from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
from kwire.codec.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.topic_metadata import NOT_ASKED, cluster_operations, controller_id, reachable_brokers

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Describe the cluster from this broker's image."""
    if request.endpoint_type != BROKERS:
        return _refuse_endpoint_type(request.endpoint_type)
    image = context.services.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_id(image),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.id, host=host, port=port, rack=broker.rack, is_fenced=broker.id not in image.brokers
            )
            for broker, host, port in reachable_brokers(image, context, away=request.include_fenced_brokers)
        ],
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refuse_endpoint_type(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {endpoint_type}"
    )


API = Api(ApiKey.DESCRIBE_CLUSTER, served=(0, 2), handle=handle)
