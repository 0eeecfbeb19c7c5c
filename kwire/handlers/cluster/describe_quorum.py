"""DescribeQuorum (API key 55): the leader of the cluster's metadata, and how far the brokers have followed (KIP-836).

kwire has no metadata log. The response describes the controllership and the metadata store as its one partition: the
controller is the leader, the controller epoch the leader epoch, and the revision of the store that this broker has seen
is both high watermark and log end offset.

Behaviour: only ``__cluster_metadata``-0 can be described, and nothing else in the same request; otherwise every
partition gets UNKNOWN_TOPIC_OR_PARTITION. Without a controller: NOT_LEADER_OR_FOLLOWER.

Versions: 1 times (KIP-836); 2 nodes, their listeners and error messages (KIP-853).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.cluster.controller.topics import CLUSTER_METADATA_TOPIC
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.codec.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.handlers.topic_metadata import controller_id, reachable_brokers
from kwire.security.acls.operations import Operation


def operations(request: DescribeQuorumRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Describe the controllership as the quorum."""
    requested = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if requested != [(CLUSTER_METADATA_TOPIC, 0)] or len(request.topics) != 1:
        return _unknown(request)
    image = context.services.image
    leader = controller_id(image)
    if leader == -1:
        return top_level_error(DescribeQuorumResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # type: ignore[no-any-return]
    partition = _partition(image, leader, context.services.doors.clock.time_ms())
    response = DescribeQuorumResponse(
        error_message=None, topics=[TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )
    if context.api_version >= 2:
        response.nodes = [
            Node(node_id=broker.id, listeners=[Listener(name=context.listener, host=host, port=port)])
            for broker, host, port in reachable_brokers(image, context)
            if broker.id == leader
        ]
    return response


def _partition(image: ClusterImage, leader: int, now_ms: int) -> PartitionData:
    def replica(broker: int) -> ReplicaState:
        return ReplicaState(
            replica_id=broker,
            log_end_offset=image.revision,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    return PartitionData(
        partition_index=0,
        error_message=None,
        leader_id=leader,
        leader_epoch=image.controller_epoch,
        high_watermark=image.revision,
        current_voters=[replica(leader)],
        observers=[replica(broker.id) for broker in image.sorted_brokers() if broker.id != leader],
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionData(partition_index=each.partition_index, error_code=code, error_message=None)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(ApiKey.DESCRIBE_QUORUM, served=(0, 2), handle=handle, operations=operations)
