import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One member of a consumer group in a process of its own, so that it can be killed. The first argument is JSON:
 * {"config": {...}, "topics": [...]}. What happens goes out as JSON lines; "leave" and "commit" come in as lines.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ConcurrentLinkedQueue<String> COMMANDS = new ConcurrentLinkedQueue<>();
    private final KafkaConsumer<String, String> consumer;

    private GroupMember(KafkaConsumer<String, String> consumer) {
        this.consumer = consumer;
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(arguments[0]);
        Map<String, Object> config = new HashMap<>();
        request.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        List<String> topics = JSON.convertValue(request.get("topics"), List.class);
        Thread reader = new Thread(GroupMember::readCommands);
        reader.setDaemon(true);
        reader.start();
        StringDeserializer deserializer = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, deserializer, deserializer)) {
            new GroupMember(consumer).run(topics);
        } catch (FencedInstanceIdException fenced) {
            say(JSON.createObjectNode().put("event", "fenced"));
        }
        say(JSON.createObjectNode().put("event", "closed"));
        System.exit(0);
    }

    private static void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                COMMANDS.add(line);
            }
        } catch (java.io.IOException failure) {
            COMMANDS.add("leave");
        }
    }

    private void run(List<String> topics) {
        if (topics.get(0).startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topics.get(0)), this);
        } else {
            consumer.subscribe(topics, this);
        }
        while (true) {
            String command = COMMANDS.poll();
            if ("leave".equals(command)) {
                return;
            }
            if ("commit".equals(command)) {
                consumer.commitSync();
                say(JSON.createObjectNode().put("event", "committed"));
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                ObjectNode node = JSON.createObjectNode().put("event", "record").put("partition", record.partition());
                say(node.put("offset", record.offset()).put("value", record.value()));
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        assignment();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say(JSON.createObjectNode().put("event", "revoked").put("count", partitions.size()));
    }

    private void assignment() {
        ObjectNode node = JSON.createObjectNode().put("event", "assignment");
        ArrayNode list = node.putArray("partitions");
        consumer.assignment().stream()
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .forEach(one -> list.addArray().add(one.topic()).add(one.partition()));
        node.put("member", consumer.groupMetadata().memberId()).put("generation", consumer.groupMetadata().generationId());
        say(node);
    }

    private static synchronized void say(ObjectNode node) {
        System.out.println(node);
        System.out.flush();
    }
}
