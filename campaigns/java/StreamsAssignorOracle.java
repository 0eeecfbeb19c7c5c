import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * Assigns tasks with the class of a broker, for campaigns/streams_groups/assignor.py.
 *
 * A question is a line of JSON: [standby replicas, [[member id, process id, {subtopology: [partition...]} active,
 * {...} standby]...], [[subtopology, tasks, stateful]...]]. A line without text ends a batch, whose answers are then
 * written, a line each: {member id: [{subtopology: [partition...]} active, {...} standby]}, everything sorted.
 */
public class StreamsAssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Configurator.setRootLevel(Level.OFF); // it warns of each standby task that nobody can have
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
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : question.get(1))
            members.put(member.get(0).asText(), new AssignmentMemberSpec(Optional.empty(), Optional.empty(),
                tasks(member.get(2)), tasks(member.get(3)), Map.of(), member.get(1).asText(), Map.of(), Map.of(),
                Map.of()));
        Map<String, String> settings = Map.of("num.standby.replicas", question.get(0).asText());
        GroupAssignment assignment;
        try {
            assignment = new StickyTaskAssignor().assign(
                new GroupSpecImpl(Collections.unmodifiableMap(members), settings), new Topology(question.get(2)));
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
        Map<String, List<Object>> answer = new TreeMap<>();
        for (Map.Entry<String, MemberAssignment> each : assignment.members().entrySet())
            answer.put(each.getKey(),
                List.of(sorted(each.getValue().activeTasks()), sorted(each.getValue().standbyTasks())));
        return JSON.writeValueAsString(answer);
    }

    private static Map<String, Set<Integer>> tasks(JsonNode tasks) {
        Map<String, Set<Integer>> found = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = tasks.fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> entry = each.next();
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(entry.getKey(), partitions);
        }
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((subtopology, partitions) -> found.put(subtopology, new TreeSet<>(partitions)));
        return found;
    }

    private static class Topology implements TopologyDescriber {
        private final TreeMap<String, JsonNode> subtopologies = new TreeMap<>();

        Topology(JsonNode all) {
            for (JsonNode each : all)
                subtopologies.put(each.get(0).asText(), each);
        }

        @Override
        public List<String> subtopologies() {
            return List.copyOf(subtopologies.keySet());
        }

        @Override
        public int maxNumInputPartitions(String id) {
            return subtopologies.get(id).get(1).asInt();
        }

        @Override
        public boolean isStateful(String id) {
            return subtopologies.get(id).get(2).asBoolean();
        }
    }
}
