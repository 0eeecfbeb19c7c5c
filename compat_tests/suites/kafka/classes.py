"""The classes of Kafka's tests that start their brokers through `ClusterInstance`, by package."""

from __future__ import annotations

_BY_PACKAGE = {
    "org.apache.kafka.clients.consumer": """
        PlaintextConsumerAssignTest PlaintextConsumerCallbackTest PlaintextConsumerCloseTest PlaintextConsumerCommitTest
        PlaintextConsumerFetchTest PlaintextConsumerPollTest PlaintextConsumerSubscriptionTest PlaintextConsumerTest
        ConsumerBounceTest ConsumerIntegrationTest ConsumerTopicCreationTest
        ConsumerWithLegacyMessageFormatIntegrationTest SaslPlainPlaintextConsumerTest ShareConsumerTest
        ShareConsumerRackAwareTest
    """,
    "org.apache.kafka.clients.admin": """
        AdminClientWithPoliciesIntegrationTest AdminFenceProducersTest AutoTopicCreationTest ClientTelemetryTest
        ConcurrentListOffsetsRequestTest DeleteTopicTest DescribeAuthorizedOperationsTest DescribeFeaturesTest
        DescribeProducersWithBrokerIdTest DynamicGroupConfigIntegrationTest ListOffsetsIntegrationTest
        RackAwareAutoTopicCreationTest StaticBrokerConfigTest
    """,
    "org.apache.kafka.clients.producer": """
        ProducerCompressionTest ProducerFailureHandlingTest ProducerIdExpirationTest ProducerIntegrationTest
        ProducerSendWhileDeletionTest SocketServerMemoryPoolTest
    """,
    "org.apache.kafka.clients": """
        ClientRebootstrapTest CreateTopicsRequestWithPolicyTest MetadataVersionIntegrationTest
        MetricsDuringTopicCreationDeletionTest TransactionsExpirationTest TransactionsWithMaxInFlightOneTest
    """,
    "org.apache.kafka.clients.security": "GroupAuthorizerIntegrationTest",
    "org.apache.kafka.server.quota": "CustomQuotaCallbackTest ClientQuotasRequestTest",
    "kafka.api": "GroupCoordinatorIntegrationTest",
    "kafka.server": """
        ApiVersionsRequestTest BrokerMetricNamesTest ConsumerGroupDescribeRequestTest ConsumerGroupHeartbeatRequestTest
        ConsumerProtocolMigrationTest DeleteGroupsRequestTest DescribeGroupsRequestTest DescribeQuorumRequestTest
        HeartbeatRequestTest JoinGroupRequestTest LeaveGroupRequestTest ListGroupsRequestTest OffsetCommitRequestTest
        OffsetDeleteRequestTest OffsetFetchRequestTest SaslApiVersionsRequestTest ShareFetchAcknowledgeRequestTest
        ShareGroupDescribeRequestTest ShareGroupHeartbeatRequestTest StreamsGroupDescribeRequestTest
        StreamsGroupHeartbeatRequestTest SyncGroupRequestTest TxnOffsetCommitRequestTest WriteTxnMarkersRequestTest
    """,
    "unit.kafka.server": "AllocateProducerIdsRequestTest",
    "org.apache.kafka.tools": """
        AclCommandTest BrokerApiVersionsCommandTest ClusterToolTest ConfigCommandIntegrationTest
        DeleteRecordsCommandTest FeatureCommandTest GetOffsetShellTest GroupsCommandTest LeaderElectionCommandTest
        LogDirsCommandTest MetadataQuorumCommandTest TopicCommandTest UserScramCredentialsCommandTest
    """,
    "org.apache.kafka.tools.consumer": "ConsoleConsumerTest",
    "org.apache.kafka.tools.consumer.group": """
        DeleteConsumerGroupsTest DeleteOffsetsConsumerGroupCommandIntegrationTest DescribeConsumerGroupTest
        ListConsumerGroupTest ResetConsumerGroupOffsetTest
    """,
    "org.apache.kafka.tools.reassign": "ReassignPartitionsCommandTest",
    "org.apache.kafka.api": "EndToEndClusterIdTest",
    "org.apache.kafka.server": """
        BootstrapControllersIntegrationTest BrokerRegistrationRequestTest CordonedLogDirsIntegrationTest
        EligibleLeaderReplicasIntegrationTest LogManagerIntegrationTest MetadataRequestTest
        MonitorablePluginsIntegrationTest UncleanLeaderElectionTest
    """,
    "org.apache.kafka.server.log": "LogAppendTimeTest",
    "org.apache.kafka.server.config": "DynamicConfigTest MinInSyncReplicasConfigTest",
}

CLASSES = {name: package for package, names in _BY_PACKAGE.items() for name in names.split()}
"""The package of each class."""


def full_name(name: str) -> str:
    """The name of a class with its package; one that is not in `CLASSES` must have it already."""
    return f"{CLASSES[name]}.{name}" if name in CLASSES else name
