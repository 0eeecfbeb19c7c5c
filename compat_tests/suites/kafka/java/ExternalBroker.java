package org.apache.kafka.common.test.junit;

import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import kafka.network.SocketServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.IntegrationTestUtils;
import org.mockito.Mockito;

/** One broker in a process of its own, and what a test sees in place of Kafka's KafkaBroker. */
final class ExternalBroker {
    private static final Set<ConfigSource> DYNAMIC =
        Set.of(ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);
    private final ExternalCluster cluster;
    private final int id;
    private final int port;
    private final Map<String, String> properties;
    private final ExternalLogs logs;
    private final KafkaBroker seen;
    private volatile boolean running = true;

    ExternalBroker(ExternalCluster cluster, int id, int port, Map<String, String> properties) {
        this.cluster = cluster;
        this.id = id;
        this.port = port;
        this.properties = properties;
        List<File> directories = Stream.of(properties.get("log.dirs").split(",")).map(File::new).toList();
        this.logs = new ExternalLogs(cluster, this, directories);
        this.seen = proxy(KafkaBroker.class, this::answer);
    }

    int id() {
        return id;
    }

    int port() {
        return port;
    }

    boolean isRunning() {
        return running;
    }

    KafkaBroker seen() {
        return seen;
    }

    synchronized void end() {
        if (running)
            Launcher.get().ask(Map.of("do", "end", "broker", String.valueOf(id)));
        running = false;
    }

    synchronized void begin() {
        if (!running)
            Launcher.get().ask(Map.of("do", "begin", "broker", String.valueOf(id)));
        running = true;
    }

    boolean offersConsumerGroups() {
        return properties.getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer").contains("consumer");
    }

    /** How many brokers this one knows. */
    int known() {
        if (cluster.config().brokerSecurityProtocol() == SecurityProtocol.PLAINTEXT)
            return metadata(List.of()).brokers().size();
        return admin(admin -> admin.describeCluster().nodes().get().size());
    }

    Optional<Integer> partitions(String topic) {
        if (cluster.config().brokerSecurityProtocol() == SecurityProtocol.PLAINTEXT)
            return topic(topic).map(found -> found.partitions().size());
        return admin(admin -> admin.listTopics().names().get().contains(topic)
            ? Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size())
            : Optional.empty());
    }

    Collection<AclBinding> acls(AclBindingFilter filter) {
        return admin(admin -> admin.describeAcls(filter).values().get());
    }

    Map<String, Uuid> topicIds() {
        Map<String, Uuid> found = new HashMap<>();
        metadata(null).data().topics().forEach(each -> found.put(each.name(), each.topicId()));
        return found;
    }

    private Optional<MetadataResponseTopic> topic(String name) {
        return metadata(List.of(name)).data().topics().stream().filter(each -> each.errorCode() == 0).findFirst();
    }

    private MetadataResponse metadata(List<String> topics) {
        MetadataRequest.Builder request = topics == null
            ? MetadataRequest.Builder.allTopics() : new MetadataRequest.Builder(topics, false);
        try {
            return IntegrationTestUtils.connectAndReceive(request.build(), port);
        } catch (Exception problem) {
            throw new RuntimeException(problem);
        }
    }

    private interface Question<T> {
        T ask(Admin admin) throws Exception;
    }

    private <T> T admin(Question<T> question) {
        try (Admin admin = cluster.admin(Map.of("bootstrap.servers", "localhost:" + port))) {
            return question.ask(admin);
        } catch (Exception problem) {
            throw new RuntimeException(problem);
        }
    }

    private Object answer(Object broker, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "config":
                return config();
            case "boundPort":
                return port;
            case "socketServer":
                return mock(SocketServer.class, Map.of("boundPort", () -> port));
            case "dataPlaneRequestProcessor":
                return mock(KafkaApis.class, Map.of("brokerId", () -> id,
                    "isConsumerGroupProtocolEnabled", this::offersConsumerGroups));
            case "replicaManager":
                return logs.replicas();
            case "logManager":
                return logs.manager();
            case "groupCoordinator":
                return proxy(GroupCoordinator.class, this::answerForGroups);
            case "metadataCache":
                return proxy(MetadataCache.class, this::answerForMetadata);
            case "clusterId":
                return cluster.clusterId();
            case "brokerState":
                return running ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN;  // as of a stopped broker of Kafka
            case "isShutdown":
                return !running;
            case "shutdown":
                end();
                return null;
            case "startup":
                begin();
                return null;
            case "awaitShutdown":
                return null;
            default:
                return common(broker, method, arguments, "KafkaBroker");
        }
    }

    /** The high watermark as the partition's leader has it. */
    long highWatermark(TopicPartition partition) {
        return admin(admin -> admin.listOffsets(Map.of(partition, OffsetSpec.latest()))
            .partitionResult(partition).get().offset());
    }

    boolean leads(TopicPartition partition) {
        return topic(partition.topic()).stream().flatMap(found -> found.partitions().stream())
            .anyMatch(each -> each.partitionIndex() == partition.partition() && each.leaderId() == id);
    }

    private Object answerForGroups(Object groups, Method method, Object[] arguments) {
        if (!method.getName().equals("groupMetadataTopicConfigs"))
            return common(groups, method, arguments, "GroupCoordinator");
        Properties configs = new Properties();
        configs.put("cleanup.policy", "compact");
        configs.put("compression.type", "producer");
        configs.put("segment.bytes", String.valueOf(config().groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        return configs;
    }

    private Object answerForMetadata(Object cache, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "numPartitions":
                return partitions((String) arguments[0]);
            case "contains":
                if (arguments[0] instanceof String)
                    return partitions((String) arguments[0]).isPresent();
                return common(cache, method, arguments, "MetadataCache");
            case "getAllTopics":
                return new HashSet<>(topicIds().keySet());
            case "getTopicId":
                return topicIds().getOrDefault((String) arguments[0], Uuid.ZERO_UUID);
            case "topicNamesToIds":
                return topicIds();
            case "hasAliveBroker":
                return metadata(List.of()).brokersById().containsKey((Integer) arguments[0]);
            case "getAliveBrokerNodes":
                return List.copyOf(metadata(List.of()).brokersById().values());
            case "getLeaderAndIsr":
                return topic((String) arguments[0]).flatMap(found -> found.partitions().stream()
                    .filter(each -> each.partitionIndex() == (Integer) arguments[1])
                    .findFirst()).map(ExternalBroker::leaderAndIsr);
            default:
                return common(cache, method, arguments, "MetadataCache");
        }
    }

    private static LeaderAndIsr leaderAndIsr(MetadataResponsePartition found) {
        List<Integer> isr = new ArrayList<>(found.isrNodes());
        return new LeaderAndIsr(found.leaderId(), found.leaderEpoch(), isr, LeaderRecoveryState.RECOVERED, 0);
    }

    /** The properties that the broker was started with, and those that have been set since. */
    private KafkaConfig config() {
        Map<String, String> all = new HashMap<>(properties);
        all.putAll(dynamic());
        String listener = cluster.clientListener().value();
        all.put("node.id", String.valueOf(id));
        all.put("process.roles", "broker");
        all.put("listeners", listener + "://localhost:" + port);
        all.put("controller.listener.names", "CONTROLLER");
        all.put("controller.quorum.voters", "3000@localhost:1");
        all.merge("listener.security.protocol.map", "CONTROLLER:PLAINTEXT", (one, other) -> one + "," + other);
        return new KafkaConfig(all, false);
    }

    private Map<String, String> dynamic() {
        if (!running)
            return Map.of();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id));
        Map<String, String> found = new HashMap<>();
        admin(admin -> admin.describeConfigs(List.of(broker)).all().get().get(broker)).entries().forEach(each -> {
            if (DYNAMIC.contains(each.source()) && each.value() != null)
                found.put(each.name(), each.value());
        });
        return found;
    }

    private Object common(Object self, Method method, Object[] arguments, String type) {
        switch (method.getName()) {
            case "hashCode":
                return id;
            case "equals":
                return self == arguments[0];
            case "toString":
                return type + " " + id;
            default:
                throw cluster.looksInside(type + "." + method.getName());
        }
    }

    private <T> T mock(Class<T> type, Map<String, Callable<Object>> answers) {
        return Mockito.mock(type, called -> {
            Callable<Object> answer = answers.get(called.getMethod().getName());
            if (answer != null)
                return answer.call();
            throw cluster.looksInside(type.getSimpleName() + "." + called.getMethod().getName());
        });
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
