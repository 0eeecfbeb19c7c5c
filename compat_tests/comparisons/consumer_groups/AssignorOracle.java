import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Reads groups line by line and prints what Kafka's assignors make of them. A line has fields separated by spaces:
 * assignor, HOMOGENEOUS or HETEROGENEOUS, topics (id=partitions,...), then for each member
 * id|instance or -|topic,topic,...|topic=p.p.p,topic=...
 */
public class AssignorOracle {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            System.out.println(answer(in.nextLine().split(" ")));
        }
    }

    static String answer(String[] fields) {
        Map<Uuid, Integer> topics = new HashMap<>();
        for (String topic : fields[2].split(",")) {
            String[] parts = topic.split("=");
            topics.put(uuid(parts[0]), Integer.parseInt(parts[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 3; i < fields.length; i++) {
            String[] parts = fields[i].split("\\|", -1);
            Set<Uuid> wanted = new LinkedHashSet<>();
            for (String topic : parts[2].split(",")) {
                if (!topic.isEmpty()) wanted.add(uuid(topic));
            }
            Map<Uuid, Set<Integer>> owned = new LinkedHashMap<>();
            for (String topic : parts[3].split(",")) {
                if (topic.isEmpty()) continue;
                String[] pair = topic.split("=");
                Set<Integer> partitions = new LinkedHashSet<>();
                for (String partition : pair[1].split("\\.")) partitions.add(Integer.parseInt(partition));
                owned.put(uuid(pair[0]), partitions);
                for (int partition : partitions) {
                    owners.computeIfAbsent(uuid(pair[0]), key -> new HashMap<>()).put(partition, parts[0]);
                }
            }
            Optional<String> instance = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, wanted, new Assignment(Collections.unmodifiableMap(owned))));
        }
        GroupSpec spec = new GroupSpecImpl(members, SubscriptionType.valueOf(fields[1]), owners, Optional.empty());
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return topics.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }

            public Set<Integer> assignablePartitions(Uuid topic) {
                return Set.of();
            }
        };
        PartitionAssignor assignor = fields[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        return text(assignor.assign(spec, describer));
    }

    static Uuid uuid(String text) {
        return Uuid.fromString(text);
    }

    static String text(GroupAssignment assignment) {
        TreeMap<String, String> lines = new TreeMap<>();
        for (Map.Entry<String, MemberAssignment> member : assignment.members().entrySet()) {
            TreeMap<String, String> topics = new TreeMap<>();
            for (Map.Entry<Uuid, Set<Integer>> topic : member.getValue().partitions().entrySet()) {
                List<String> partitions = new ArrayList<>();
                for (int partition : new TreeSet<>(topic.getValue())) partitions.add(String.valueOf(partition));
                if (!partitions.isEmpty()) topics.put(topic.getKey().toString(), String.join(".", partitions));
            }
            List<String> parts = new ArrayList<>();
            topics.forEach((topic, partitions) -> parts.add(topic + "=" + partitions));
            if (!parts.isEmpty()) lines.put(member.getKey(), String.join(",", parts));
        }
        List<String> all = new ArrayList<>();
        lines.forEach((member, topics) -> all.add(member + "|" + topics));
        return String.join(" ", all);
    }
}
