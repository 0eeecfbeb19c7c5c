import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Combines state batches of share groups with Kafka's class, for campaigns/share/batches.py.
 *
 * A question is a line of JSON: [[batch...], [batch...], start offset], where a batch is [first offset, last offset,
 * delivery count, delivery state]. A line without text ends a batch of questions, whose answers are then written, a
 * line of JSON each: the combined batches in the same form.
 */
public class StateBatchOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            if (line.isEmpty()) {
                out.flush();
            } else {
                out.println(answer(JSON.readTree(line)));
            }
        }
    }

    private static String answer(JsonNode question) throws Exception {
        List<List<Long>> combined = new ArrayList<>();
        var combiner = new PersisterStateBatchCombiner(
            batches(question.get(0)), batches(question.get(1)), question.get(2).asLong());
        for (PersisterStateBatch each : combiner.combineStateBatches()) {
            combined.add(List.of(
                each.firstOffset(), each.lastOffset(), (long) each.deliveryCount(), (long) each.deliveryState()));
        }
        return JSON.writeValueAsString(combined);
    }

    private static List<PersisterStateBatch> batches(JsonNode nodes) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (JsonNode each : nodes) {
            found.add(new PersisterStateBatch(
                each.get(0).asLong(), each.get(1).asLong(), (byte) each.get(3).asInt(), (short) each.get(2).asInt()));
        }
        return found;
    }
}
