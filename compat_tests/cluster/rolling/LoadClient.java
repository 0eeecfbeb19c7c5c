import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One producer and a group of consumers that run until a line comes in on standard input; then they read to the end and
 * tell what they met: BOOTSTRAP TOPIC GROUP RATE CONSUMERS [PROPERTY=VALUE ...]. Properties of a
 * group are the consumers' only.
 */
public final class LoadClient {
    private static final Collection<String> ACKED = new ConcurrentLinkedQueue<>();
    private static final Collection<String> FAILED = new ConcurrentLinkedQueue<>();
    private static final Collection<String> ERRORS = new ConcurrentLinkedQueue<>();
    private static final Collection<String> RETRIABLE = new ConcurrentLinkedQueue<>();
    private static final Set<String> SEEN = ConcurrentHashMap.newKeySet();
    private static final Set<Thread> READERS = ConcurrentHashMap.newKeySet();
    private static volatile boolean producing = true;
    private static volatile boolean consuming = true;
    private static double retries;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int rate = Integer.parseInt(arguments[3]);
        List<Thread> consumers = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            Thread consumer = new Thread(() -> consume(bootstrap, topic, arguments));
            consumer.start();
            consumers.add(consumer);
        }
        Thread producer = new Thread(() -> produce(bootstrap, topic, rate, arguments));
        producer.start();
        while (READERS.size() < consumers.size() && consumers.stream().allMatch(Thread::isAlive)) {
            Thread.sleep(20);
        }
        System.out.println("under way");
        System.in.read();
        producing = false;
        producer.join();
        long end = System.currentTimeMillis() + 60_000;
        while (!SEEN.containsAll(ACKED) && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        consuming = false;
        for (Thread consumer : consumers) {
            consumer.join();
        }
        ObjectMapper json = new ObjectMapper();
        ObjectNode answer = json.createObjectNode();
        answer.set("acked", json.valueToTree(ACKED));
        answer.set("seen", json.valueToTree(SEEN));
        answer.set("failed", json.valueToTree(FAILED));
        answer.set("errors", json.valueToTree(ERRORS));
        answer.set("retriable", json.valueToTree(RETRIABLE));
        answer.put("retries", retries);
        System.out.println(answer);
    }

    private static void note(Exception error) {
        (error instanceof RetriableException ? RETRIABLE : ERRORS).add(error.toString());
    }

    private static void produce(String bootstrap, String topic, int rate, String[] arguments) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "5"));
        config.putAll(properties(arguments, "group."));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; producing; number++) {
                String value = "java-" + number;
                producer.send(new ProducerRecord<>(topic, number % 3, null, value), (metadata, error) -> {
                    if (error == null) {
                        ACKED.add(value);
                    } else {
                        FAILED.add(error.toString());
                    }
                });
                Thread.sleep(1000 / rate);
            }
            producer.flush();
            producer.metrics().forEach((name, metric) -> {
                if (name.name().equals("record-retry-total") && name.group().equals("producer-metrics")) {
                    retries = (double) metric.metricValue();
                }
            });
        } catch (Exception error) {
            note(error);
        }
    }

    private static Map<String, Object> properties(String[] arguments, String without) {
        Map<String, Object> found = new HashMap<>();
        for (int index = 5; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            if (without.isEmpty() || !pair[0].startsWith(without)) {
                found.put(pair[0], pair[1]);
            }
        }
        return found;
    }

    private static void consume(String bootstrap, String topic, String[] arguments) {
        Map<String, Object> config = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "group.id", arguments[2], "auto.offset.reset", "earliest",
            "enable.auto.commit", "false"));
        config.putAll(properties(arguments, ""));
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long committed = System.currentTimeMillis();
            while (consuming) {
                try {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        SEEN.add(record.value());
                        READERS.add(Thread.currentThread());
                    }
                    if (System.currentTimeMillis() - committed > 300) {
                        committed = System.currentTimeMillis();
                        consumer.commitSync();
                    }
                } catch (Exception error) {
                    note(error);
                }
            }
        }
    }
}
