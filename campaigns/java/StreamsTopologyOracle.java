import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData.TopicPartition;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.helpers.NOPLogger;

/**
 * Configures topologies with the classes of a broker, for campaigns/streams_groups/topology.py.
 *
 * A question is a line of JSON: [a StreamsGroupHeartbeat request of version 0 in hexadecimal digits, {topic:
 * partitions}, {subtopology: [task...]}]. A line without text ends a batch, whose answers are then written, a line
 * each: the error and its message, if it is expected; or an object whose parts are named in `answer`.
 */
public class StreamsTopologyOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Method check;
    private static Method topicPartitions;

    public static void main(String[] arguments) throws Exception {
        check = GroupCoordinatorService.class.getDeclaredMethod("throwIfInvalidTopology",
            StreamsGroupHeartbeatRequestData.Topology.class);
        check.setAccessible(true);
        topicPartitions = EndpointToPartitionsManager.class.getDeclaredMethod("topicPartitions", Map.class, Map.class,
            CoordinatorMetadataImage.class);
        topicPartitions.setAccessible(true);
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

    private static String answer(JsonNode question) {
        ByteBuffer request = ByteBuffer.wrap(HexFormat.of().parseHex(question.get(0).asText()));
        StreamsGroupHeartbeatRequestData.Topology sent =
            new StreamsGroupHeartbeatRequestData(new ByteBufferAccessor(request), (short) 0).topology();
        try {
            return JSON.writeValueAsString(answer(sent, image(question.get(1)), question.get(2)));
        } catch (InvocationTargetException e) {
            return error(e.getCause());
        } catch (Exception e) {
            return error(e);
        }
    }

    private static ObjectNode answer(StreamsGroupHeartbeatRequestData.Topology sent, CoordinatorMetadataImage image,
            JsonNode tasks) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        check.invoke(null, sent);
        StreamsTopology topology = StreamsTopology.fromHeartbeatRequest(sent);
        StreamsGroupTopologyValue record = StreamsCoordinatorRecordHelpers.convertToStreamsGroupTopologyRecord(sent);
        answer.put("record", hex(MessageUtil.toVersionPrefixedByteBuffer((short) 0, record)));
        if (!StreamsTopology.fromRecord(record).equals(topology))
            throw new IllegalStateException("the record has another topology");
        ConfiguredTopology configured =
            InternalTopicManager.configureTopics(NOPLogger.NOP_LOGGER, "g", "m", 0, topology, image, Time.SYSTEM);
        answer.put("ready", configured.isReady());
        configured.topicConfigurationException().ifPresent(problem ->
            answer.put("status", problem.status().code()).put("detail", problem.getMessage()));
        ArrayNode create = answer.putArray("create");
        for (CreatableTopic topic : configured.internalTopicsToBeCreated().values()) {
            ArrayNode one = create.addArray().add(topic.name()).add(topic.numPartitions());
            ObjectNode configs = one.add(topic.replicationFactor()).addObject();
            topic.configs().forEach(config -> configs.put(config.name(), config.value()));
        }
        ObjectNode counts = answer.putObject("tasks");
        configured.subtopologies().ifPresent(subtopologies ->
            subtopologies.forEach((id, subtopology) -> counts.put(id, subtopology.numberOfTasks())));
        StreamsGroupDescribeResponseData.Topology described = configured.isReady()
            ? configured.asStreamsGroupDescribeTopology() : topology.asStreamsGroupDescribeTopology();
        answer.put("described", hex(MessageUtil.toByteBufferAccessor(new StreamsGroupDescribeResponseData().setGroups(
            List.of(new StreamsGroupDescribeResponseData.DescribedGroup().setTopology(described))), (short) 0)
            .buffer()));
        ArrayNode required = answer.putArray("required");
        topology.requiredTopics().forEach(required::add);
        ObjectNode readers = answer.putObject("readers");
        new TreeMap<>(topology.sourceTopicMap()).forEach((topic, reader) -> readers.put(topic, reader.subtopologyId()));
        if (configured.isReady())
            answer.set("partitions", partitions(tasks, configured.subtopologies().get(), image));
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static ArrayNode partitions(JsonNode tasks, Map<String, ConfiguredSubtopology> subtopologies,
            CoordinatorMetadataImage image) throws Exception {
        ArrayNode found = JSON.createArrayNode();
        TreeMap<String, JsonNode> ordered = new TreeMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = tasks.fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> entry = each.next();
            ordered.put(entry.getKey(), entry.getValue());
        }
        for (Map.Entry<String, JsonNode> each : ordered.entrySet()) {
            Set<Integer> partitions = new TreeSet<>();
            each.getValue().forEach(partition -> partitions.add(partition.asInt()));
            for (TopicPartition topic : (List<TopicPartition>) topicPartitions.invoke(null,
                    Map.of(each.getKey(), partitions), subtopologies, image)) {
                ArrayNode numbers = found.addArray().add(topic.topic()).addArray();
                topic.partitions().stream().sorted().forEach(numbers::add);
            }
        }
        return found;
    }

    private static String error(Throwable e) {
        Errors error = Errors.forException(e);
        return error == Errors.UNKNOWN_SERVER_ERROR ? error.name() : error.name() + " " + e.getMessage();
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static CoordinatorMetadataImage image(JsonNode topics) {
        Map<String, Integer> counts = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> each = topics.fields(); each.hasNext();) {
            Map.Entry<String, JsonNode> entry = each.next();
            counts.put(entry.getKey(), entry.getValue().asInt());
        }
        return proxy(CoordinatorMetadataImage.class, (method, argument) -> {
            if (!counts.containsKey(argument))
                return Optional.empty();
            return Optional.of(proxy(CoordinatorMetadataImage.TopicMetadata.class, (asked, ignored) -> {
                if (asked.equals("partitionCount"))
                    return counts.get(argument);
                throw new UnsupportedOperationException(asked);
            }));
        });
    }

    private interface Answer {
        Object of(String method, Object argument);
    }

    @SuppressWarnings("unchecked")
    private static <T> T proxy(Class<T> type, Answer answer) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) ->
            answer.of(method.getName(), arguments == null ? null : arguments[0]));
    }
}
