import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's producer and consumer for the tests: JSON on standard input says what to do, JSON on standard output what came. */
public final class JavaClient {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        JsonNode answer = switch (arguments[0]) {
            case "produce" -> produce(request);
            case "consume" -> consume(request);
            case "offsets-for-times" -> offsetsForTimes(request);
            case "copy" -> copy(request);
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        System.out.println(answer);
    }

    private static Map<String, Object> config(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        request.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static String text(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    private static JsonNode produce(JsonNode request) throws Exception {
        ArrayNode answer = JSON.createArrayNode();
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config(request), serializer, serializer)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                sent.add(producer.send(producerRecord(request.get("topic").asText(), record)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                answer.addArray().add(metadata.partition()).add(metadata.offset()).add(metadata.timestamp());
            }
        }
        return answer;
    }

    private static ProducerRecord<byte[], byte[]> producerRecord(String topic, JsonNode record) {
        Long timestamp = record.get("timestamp").isNull() ? null : Long.valueOf(record.get("timestamp").asLong());
        ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(
            topic, record.get("partition").asInt(), timestamp, bytes(record.get("key")), bytes(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            made.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return made;
    }

    private static List<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> partitions = new ArrayList<>();
        request.get("partitions").forEach(
            index -> partitions.add(new TopicPartition(request.get("topic").asText(), index.asInt())));
        return partitions;
    }

    private static JsonNode consume(JsonNode request) {
        ArrayNode answer = JSON.createArrayNode();
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(request), deserializer, deserializer)) {
            List<TopicPartition> partitions = partitions(request);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.currentTimeMillis() + 30_000;
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("not all records within 30 s");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    answer.add(recordNode(record));
                }
            }
        }
        return answer;
    }

    private static ObjectNode recordNode(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("partition", record.partition()).put("offset", record.offset()).put("timestamp", record.timestamp());
        node.put("timestamp_type", record.timestampType().id).put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return node;
    }

    private static JsonNode offsetsForTimes(JsonNode request) {
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        ArrayNode answer = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(request), deserializer, deserializer)) {
            TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
            for (JsonNode time : request.get("times")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time.asLong())).get(partition);
                if (found == null) {
                    answer.addNull();
                } else {
                    answer.addArray().add(found.offset()).add(found.timestamp());
                }
            }
        }
        return answer;
    }

    /** Consumes records of "source" in "group" and produces them to "target" in one transaction. */
    private static JsonNode copy(JsonNode request) {
        Map<String, Object> reading = config(request);
        reading.putAll(Map.of("group.id", request.get("group").asText(), "auto.offset.reset", "earliest"));
        reading.put("enable.auto.commit", "false");
        Map<String, Object> writing = config(request);
        writing.put("transactional.id", request.get("transactional_id").asText());
        String target = request.get("target").asText();
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        ByteArraySerializer serializer = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing, serializer, serializer);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading, deserializer, deserializer)) {
            producer.initTransactions();
            consumer.subscribe(List.of(request.get("source").asText()));
            ConsumerRecords<byte[], byte[]> records = ConsumerRecords.empty();
            for (long end = System.currentTimeMillis() + 60_000; records.isEmpty();) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("no record within 60 s");
                }
                records = consumer.poll(Duration.ofMillis(500));
            }
            producer.beginTransaction();
            records.forEach(record -> producer.send(new ProducerRecord<>(target, record.value())));
            producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
            producer.commitTransaction();
            return JSON.createObjectNode().put("copied", records.count());
        } finally {
            producer.close(Duration.ZERO); // without an end of the transaction that failed
        }
    }
}
