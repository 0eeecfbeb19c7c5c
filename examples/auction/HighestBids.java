import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads a number of bids and prints the highest one of each auction; of equal bids, the first one counts.
 *
 * <pre>java -cp 'KAFKA/libs/*' HighestBids.java --bootstrap HOST:PORT [--topic bids] [--bids 1000]</pre>
 */
public final class HighestBids {
    private static final ObjectMapper JSON = new ObjectMapper();

    private HighestBids() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>(
            Map.of("--bootstrap", "localhost:9092", "--topic", "bids", "--bids", "1000", "--protocol", "classic"));
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
        Map<String, Object> config = Map.of(
            "bootstrap.servers", options.get("--bootstrap"),
            "group.id", "highest-bids",
            "group.protocol", options.get("--protocol"),
            "auto.offset.reset", "earliest");
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, text, text)) {
            consumer.subscribe(List.of(options.get("--topic")));
            Map<String, JsonNode> highest = read(consumer, Integer.parseInt(options.get("--bids")));
            consumer.commitSync();
            highest.forEach((auction, bid) -> System.out.printf(
                "%s: %d by %s%n", auction, bid.get("amount").asInt(), bid.get("bidder").asText()));
        }
    }

    private static Map<String, JsonNode> read(KafkaConsumer<String, String> consumer, int bids) throws Exception {
        Map<String, JsonNode> highest = new TreeMap<>();
        for (int count = 0; count < bids;) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                JsonNode bid = JSON.readTree(record.value());
                highest.merge(record.key(), bid, HighestBids::higher);
                count++;
            }
        }
        return highest;
    }

    private static JsonNode higher(JsonNode old, JsonNode bid) {
        return bid.get("amount").asInt() > old.get("amount").asInt() ? bid : old;
    }
}
