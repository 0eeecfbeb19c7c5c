package org.apache.kafka.common.test;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import kafka.server.BrokerServer;

/**
 * Takes the place of Kafka's class of this name, which EmbeddedKafkaCluster uses: a cluster of brokers in processes of
 * their own, started by the command in the system property "kwire.suite.brokers", whose words are separated by line
 * feeds. The command reads one line of JSON (the number of brokers, their properties, and those of single ones), writes
 * the addresses in a line when the brokers have started, and ends with its standard input.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final TestKitNodes nodes;
    private final Map<String, String> properties;
    private final MockFaultHandler faults = new MockFaultHandler("faults");
    private Process process;
    private String addresses;

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, String> properties) {
        this.nodes = nodes;
        this.properties = properties;
    }

    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> properties = new TreeMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            properties.put(name, String.valueOf(value));
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, properties);
        }
    }

    public void format() {
    }

    public void startup() throws IOException {
        process = new ProcessBuilder(List.of(System.getProperty("kwire.suite.brokers").split("\n")))
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Map<String, Object> single = new TreeMap<>();
        nodes.brokerNodes().forEach((id, node) -> single.put(String.valueOf(id), node.propertyOverrides()));
        OutputStream out = process.getOutputStream();
        out.write((JSON.writeValueAsString(Map.of("properties", properties, "brokers", single)) + "\n")
            .getBytes(StandardCharsets.UTF_8));
        out.flush();
        addresses = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        if (addresses == null)
            throw new IOException("the brokers have not started");
    }

    public void waitForReadyBrokers() {
    }

    public String bootstrapServers() {
        return addresses;
    }

    /** As many entries as there are brokers; their values are null. */
    public Map<Integer, BrokerServer> brokers() {
        Map<Integer, BrokerServer> brokers = new HashMap<>();
        nodes.brokerNodes().keySet().forEach(id -> brokers.put(id, null));
        return brokers;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() throws IOException, InterruptedException {
        if (process == null)
            return;
        process.getOutputStream().close();
        if (!process.waitFor(60, TimeUnit.SECONDS))
            process.destroyForcibly();
    }
}
