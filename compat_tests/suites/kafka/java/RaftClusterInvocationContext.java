package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/**
 * Takes the place of Kafka's class of this name: each test gets a new cluster of brokers in processes of their own. A
 * test that fails after it has asked for an object inside a broker counts as aborted, with the name of that object.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final String BROKER = "cannot be cast to class kafka.server.BrokerServer";
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
        Launcher.get();  // its threads must not count as leaked by the test
        ExternalMetrics.install();
    }

    @Override
    public String getDisplayName(int index) {
        return String.format("%s [%d] Type=Raft-%s, %s", name, index, combined ? "Combined" : "Isolated",
            String.join(",", config.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ExternalCluster cluster = new ExternalCluster(config, combined);
        BeforeEachCallback before = context -> {
            if (config.isAutoStart())
                cluster.start();
        };
        AfterEachCallback after = context -> cluster.stop();
        TestExecutionExceptionHandler failed = (context, problem) -> {
            if (problem instanceof ClassCastException && String.valueOf(problem.getMessage()).contains(BROKER))
                throw cluster.looksInside("BrokerServer");
            if (cluster.inside().isPresent() && !(problem instanceof TestAbortedException))
                throw new TestAbortedException(cluster.inside().get(), problem);
            throw problem;
        };
        return List.of(before, after, failed, new ClusterInstanceParameterResolver(cluster));
    }
}
