package org.apache.kafka.common.test.junit;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** What a test sees in place of a broker's ReplicaManager and LogManager: the directories of its partitions. */
final class ExternalLogs {
    private final ExternalCluster cluster;
    private final ExternalBroker broker;
    private final List<File> directories;

    ExternalLogs(ExternalCluster cluster, ExternalBroker broker, List<File> directories) {
        this.cluster = cluster;
        this.broker = broker;
        this.directories = directories;
    }

    ReplicaManager replicas() {
        return Mockito.mock(ReplicaManager.class, called -> {
            switch (called.getMethod().getName()) {
                case "localLog":
                    return log(called.getArgument(0));
                case "metadataCache":
                    return broker.seen().metadataCache();
                case "onlinePartition":
                    return partition(called.getArgument(0));
                default:
                    throw cluster.looksInside("ReplicaManager." + called.getMethod().getName());
            }
        });
    }

    LogManager manager() {
        return Mockito.mock(LogManager.class, called -> {
            switch (called.getMethod().getName()) {
                case "getLog":
                    return log(called.getArgument(0));
                case "getLog$default$2":
                    return false;
                case "liveLogDirs":
                    return CollectionConverters.asScala(directories).toSeq();
                default:
                    throw cluster.looksInside("LogManager." + called.getMethod().getName());
            }
        });
    }

    private boolean isThere(TopicPartition partition) {
        return directories.stream().anyMatch(each -> new File(each, partition.toString()).isDirectory());
    }

    private Option<UnifiedLog> log(TopicPartition partition) {
        return isThere(partition)
            ? Option.apply(mock(UnifiedLog.class, Map.of("highWatermark", () -> broker.highWatermark(partition))))
            : Option.empty();
    }

    private Option<Partition> partition(TopicPartition partition) {
        if (!broker.isRunning() || !isThere(partition))
            return Option.empty();
        return Option.apply(mock(Partition.class, Map.of(
            "leaderIdIfLocal", () -> broker.leads(partition) ? Option.apply(broker.id()) : Option.empty(),
            "leaderLogIfLocal", () -> broker.leads(partition) ? log(partition) : Option.empty())));
    }

    private <T> T mock(Class<T> type, Map<String, Callable<Object>> answers) {
        return Mockito.mock(type, called -> {
            Callable<Object> answer = answers.get(called.getMethod().getName());
            if (answer != null)
                return answer.call();
            throw cluster.looksInside(type.getSimpleName() + "." + called.getMethod().getName());
        });
    }
}
