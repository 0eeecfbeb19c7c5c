package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.opentest4j.TestAbortedException;

/** A cluster of brokers in processes of their own. What Kafka looks up inside a broker is asked of it by Admin. */
final class ExternalCluster implements ClusterInstance {
    private static final int CONTROLLER_ID = 3000;
    private static final long WAIT_NS = 60_000_000_000L;
    private final ClusterConfig config;
    private final boolean combined;
    private final Map<Integer, ExternalBroker> brokers = new TreeMap<>();
    private volatile String inside;
    private boolean started;
    private boolean stopped;

    ExternalCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
    }

    /** Why the test is not applicable to brokers in processes of their own, once that is known. */
    Optional<String> inside() {
        return Optional.ofNullable(inside);
    }

    /** Ends the test as not applicable: it has asked for this object. */
    TestAbortedException looksInside(String object) {
        return notApplicable("looks inside a broker: " + object);
    }

    private TestAbortedException notApplicable(String reason) {
        if (inside == null)
            inside = reason;
        return new TestAbortedException(inside);
    }

    @Override
    public synchronized void start() {
        if (started)
            return;
        Map<String, Object> single = new TreeMap<>();
        Map<Integer, Map<String, String>> properties = new TreeMap<>();
        for (int id = 0; id < config.numBrokers(); id++) {
            Map<String, String> own = new TreeMap<>(config.serverProperties());
            own.putAll(security());
            own.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
            own.forEach(this::checkIsNoTestClass);
            properties.put(id, own);
            single.put(String.valueOf(id), own);
        }
        JsonNode begun = Launcher.get().ask(Map.of("do", "start", "brokers", single,
            "listener", clientListener().value(), "disks", config.numDisksPerBroker()));
        properties.forEach((id, own) -> {
            own.put("log.dirs", begun.get("directories").get(String.valueOf(id)).asText());
            int port = begun.get("ports").get(String.valueOf(id)).asInt();
            brokers.put(id, new ExternalBroker(this, id, port, own));
        });
        started = true;
        waitForReadyBrokers();
        setFeatures();
    }

    /** A broker in a process of its own cannot load the classes of a test, such as its policies. */
    private void checkIsNoTestClass(String property, String value) {
        try {
            if (Class.forName(value).getProtectionDomain().getCodeSource().getLocation().getPath().endsWith("-test.jar"))
                throw notApplicable("wants a broker that loads a class of the test: " + property);
        } catch (ClassNotFoundException | LinkageError | NullPointerException notAClassOfKafka) {
            return;
        }
    }

    private Map<String, String> security() {
        SecurityProtocol protocol = config.brokerSecurityProtocol();
        Map<String, String> found = new HashMap<>();
        found.put("listener.security.protocol.map", clientListener().value() + ":" + protocol.name);
        found.put("inter.broker.listener.name", clientListener().value());
        if (protocol == SecurityProtocol.SASL_PLAINTEXT) {
            found.put("sasl.enabled.mechanisms", "PLAIN");
            found.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
            found.put("listener.name." + clientListener().value().toLowerCase() + ".plain.sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"plain-admin\" "
                + "password=\"plain-admin-secret\" user_plain-admin=\"plain-admin-secret\" "
                + "user_plain-user1=\"plain-user1-secret\";");
            found.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            found.put("allow.everyone.if.no.acl.found", "false");
            found.put("super.users", "User:plain-admin");
        } else if (protocol != SecurityProtocol.PLAINTEXT) {
            throw notApplicable("wants brokers with " + protocol);
        }
        return found;
    }

    private void setFeatures() {
        if (config.features().isEmpty())
            return;
        try (Admin admin = admin()) {
            FeatureMetadata now = admin.describeFeatures().featureMetadata().get();
            Map<String, FeatureUpdate> updates = new HashMap<>();
            for (Map.Entry<Feature, Short> wanted : config.features().entrySet()) {
                String name = wanted.getKey().featureName();
                short level = now.finalizedFeatures().containsKey(name)
                    ? now.finalizedFeatures().get(name).maxVersionLevel() : 0;
                if (level != wanted.getValue())
                    updates.put(name, new FeatureUpdate(wanted.getValue(), level < wanted.getValue()
                        ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
            }
            if (!updates.isEmpty())
                admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
        } catch (Exception problem) {
            throw new RuntimeException("cannot set " + config.features(), problem);
        }
    }

    @Override
    public synchronized void stop() {
        stopped = true;
        if (started)
            Launcher.get().ask(Map.of("do", "stop"));
        started = false;
    }

    @Override
    public boolean started() {
        return started;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        brokers.get(id).end();
    }

    @Override
    public void startBroker(int id) {
        brokers.get(id).begin();
    }

    @Override
    public void waitForReadyBrokers() {
        int running = aliveBrokers().size();
        if (running < 2)
            return;
        for (ExternalBroker broker : brokers.values())
            if (broker.isRunning())
                waitUntil(() -> broker.known() >= running, "broker " + broker.id() + " knows all");
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return brokers.values().stream().collect(Collectors.toMap(ExternalBroker::id, ExternalBroker::seen));
    }

    Collection<ExternalBroker> running() {
        return brokers.values().stream().filter(ExternalBroker::isRunning).toList();
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return brokers.values().stream().map(ExternalBroker::port).toList();
    }

    /** No controllers to wait for or to look into; `get` has one for the few questions that Admin can answer. */
    @Override
    public Map<Integer, ControllerServer> controllers() {
        return new HashMap<>() {
            @Override
            public ControllerServer get(Object id) {
                return ExternalController.seen(ExternalCluster.this);
            }
        };
    }

    @Override
    public Set<Integer> controllerIds() {
        return new TreeSet<>(Set.of(combined ? 0 : CONTROLLER_ID));
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw notApplicable("asks for the controllers' ports");
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return brokers.values().stream().map(each -> "localhost:" + each.port()).collect(Collectors.joining(","));
    }

    @Override
    public String bootstrapControllers() {
        throw notApplicable("asks for the controllers' addresses");
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (Exception problem) {
            throw new RuntimeException(problem);
        }
    }

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        boolean both = brokers.values().stream().allMatch(ExternalBroker::offersConsumerGroups);
        return both ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) {
        for (ExternalBroker broker : running())
            waitUntil(() -> broker.partitions(topic).equals(Optional.of(partitions)), topic + " has been created");
    }

    @Override
    public void waitTopicDeletion(String topic) {
        for (ExternalBroker broker : running())
            waitUntil(() -> broker.partitions(topic).isEmpty(), topic + " has been deleted");
    }

    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> some, Collection<ControllerServer> controllers) {
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
        for (ExternalBroker broker : running())
            waitUntil(() -> {
                Set<AccessControlEntry> found = new HashSet<>();
                broker.acls(filter).forEach(each -> found.add(each.entry()));
                return found.equals(new HashSet<>(entries));
            }, "the ACLs are " + entries);
    }

    private static void waitUntil(Supplier<Boolean> condition, String what) {
        long deadline = System.nanoTime() + WAIT_NS;
        while (!condition.get()) {
            if (System.nanoTime() > deadline)
                throw new AssertionError("not within a minute: " + what);
            try {
                Thread.sleep(20);
            } catch (InterruptedException problem) {
                Thread.currentThread().interrupt();
                throw new RuntimeException(problem);
            }
        }
    }
}
