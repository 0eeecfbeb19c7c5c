import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Compares schemas with Apache Avro's SchemaCompatibility, for campaigns/schemas/avro_compatibility.py.
 *
 * A question is a line of JSON: [reader, writer], two texts. The answer is "+" if the reader reads what the writer wrote,
 * otherwise the types of incompatibility, sorted, with commas between them; "?" if one of the texts is no schema, "!" if they
 * cannot be compared (a field of the reader stands for two of the writer). A line without text ends a batch.
 */
public class AvroOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
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
        Schema reader, writer;
        try {
            reader = new Schema.Parser().parse(question.get(0).asText());
            writer = new Schema.Parser().parse(question.get(1).asText());
        } catch (AvroRuntimeException error) {
            return "?";
        }
        TreeSet<String> found = new TreeSet<>();
        SchemaCompatibility.SchemaPairCompatibility pair;
        try {
            pair = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
        } catch (AvroRuntimeException error) {
            return "!";
        }
        for (SchemaCompatibility.Incompatibility each : pair.getResult().getIncompatibilities())
            found.add(each.getType().name());
        boolean compatible = pair.getType() == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE;
        return compatible ? "+" : String.join(",", found);
    }
}
