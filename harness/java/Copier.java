import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic in transactions until it is killed; arguments: bootstrap source target group per-transaction
 * session-timeout-ms pause-ms protocol. It rests for up to pause-ms before and after a transaction's offsets are sent.
 */
public final class Copier {
    public static void main(String[] arguments) throws InterruptedException {
        String group = arguments[3];
        int pauseMs = Integer.parseInt(arguments[6]);
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "isolation.level", "read_committed", "max.poll.records", arguments[4]));
        if (arguments[7].equals("consumer")) {
            reading.put("group.protocol", "consumer");
        } else {
            reading.put("session.timeout.ms", arguments[5]);
            reading.put("heartbeat.interval.ms", Integer.parseInt(arguments[5]) / 4);
        }
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", "copy-" + group, "transaction.timeout.ms", 10_000);
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[1]));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> one : records) {
                    producer.send(new ProducerRecord<>(arguments[2], one.partition(), null, one.value()));
                    ends.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                }
                Thread.sleep((long) (Math.random() * pauseMs));
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                Thread.sleep((long) (Math.random() * pauseMs));
                producer.commitTransaction();
            }
        }
    }
}
