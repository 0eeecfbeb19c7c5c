import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Reads a kind of map and its keys, separated by spaces, and prints the keys in the order in which the map iterates.
 */
public class OrderOracle {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ");
            Map<Object, Boolean> map = words[0].startsWith("timeline")
                ? new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0) : new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                map.put(key(words[0], words[i]), true);
            }
            System.out.println(map.keySet().stream().map(OrderOracle::text).collect(Collectors.joining(" ")));
        }
    }

    static Object key(String kind, String word) {
        switch (kind) {
            case "timeline-numbers":
                return Integer.parseInt(word);
            case "partitions":
                return new TopicPartition("__consumer_offsets", Integer.parseInt(word));
            default:
                return word;
        }
    }

    static String text(Object key) {
        return key instanceof TopicPartition ? String.valueOf(((TopicPartition) key).partition()) : key.toString();
    }
}
