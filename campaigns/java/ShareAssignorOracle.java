import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * Assigns partitions with the class of a broker, for campaigns/share/assignor.py.
 *
 * A question is a line of JSON: [[[member id, [topic...], {topic: [partition...]} assigned]...], {topic:
 * [partition...]} assignable, whole]. Topics are numbers. A line without text ends a batch, whose answers are then
 * written, a line each: whole {member id: {topic: [partition...]}}, otherwise [{member id: number of partitions},
 * {topic-partition: number of members}]; everything sorted.
 */
public class ShareAssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Configurator.setRootLevel(Level.OFF);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        List<String> batch = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isEmpty()) {
                batch.add(line);
                continue;
            }
            for (String question : batch)
                out.println(answer(JSON.readTree(question)));
            out.flush();
            batch.clear();
        }
    }

    private static String answer(JsonNode question) throws Exception {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : question.get(0)) {
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get(1).forEach(topic -> topics.add(id(topic.asInt())));
            subscriptions.add(topics);
            members.put(member.get(0).asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topics, new Assignment(partitions(member.get(2)))));
        }
        Map<Uuid, Set<Integer>> assignable = partitions(question.get(1));
        SubscriptionType type = subscriptions.size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment assignment;
        try {
            assignment = new SimpleAssignor().assign(
                new GroupSpecImpl(members, type, Map.of(), Optional.of(assignable)), new Topics());
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
        Map<String, Map<String, Set<Integer>>> assigned = new TreeMap<>();
        assignment.members().forEach((member, its) -> its.partitions().forEach((topic, partitions) -> {
            if (!partitions.isEmpty())
                assigned.computeIfAbsent(member, key -> new TreeMap<>())
                    .put(Long.toString(topic.getLeastSignificantBits()), new TreeSet<>(partitions));
        }));
        return JSON.writeValueAsString(question.get(2).asBoolean() ? assigned : numbers(assigned));
    }

    private static Object numbers(Map<String, Map<String, Set<Integer>>> assigned) {
        Map<String, Integer> held = new TreeMap<>();
        Map<String, Integer> holders = new TreeMap<>();
        assigned.forEach((member, topics) -> topics.forEach((topic, partitions) -> {
            held.merge(member, partitions.size(), Integer::sum);
            partitions.forEach(partition -> holders.merge(topic + "-" + partition, 1, Integer::sum));
        }));
        return List.of(held, holders);
    }

    private static Uuid id(int topic) {
        return new Uuid(1, topic);
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode named) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = named.fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> entry = each.next();
            Set<Integer> partitions = new TreeSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(id(Integer.parseInt(entry.getKey())), partitions);
        }
        return found;
    }

    private record Topics() implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return 16; // more than there are: which of them can be assigned, the group knows
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
