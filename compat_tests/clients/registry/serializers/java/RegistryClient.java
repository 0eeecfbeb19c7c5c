import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Map;
import javax.net.ssl.SSLException;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.ParsedSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/** Confluent's client by itself: standard input has calls of a registry, and their answers go out. */
public final class RegistryClient {
    private static final ObjectMapper JSON = new ObjectMapper();

    private RegistryClient() {
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        ArrayNode answers = JSON.createArrayNode();
        Map<String, String> config = JSON.convertValue(request.get("config"), new TypeReference<>() { });
        try (CachedSchemaRegistryClient client =
                new CachedSchemaRegistryClient(request.get("registry").asText(), 100, config)) {
            for (JsonNode call : request.get("calls")) {
                answers.add(answer(client, call));
            }
        }
        System.out.println(answers);
    }

    private static JsonNode answer(CachedSchemaRegistryClient client, JsonNode call) throws Exception {
        try {
            return JSON.valueToTree(result(client, call));
        } catch (RestClientException error) {
            return JSON.createObjectNode().put("status", error.getStatus()).put("code", error.getErrorCode());
        } catch (SSLException error) {
            return JSON.createObjectNode().put("failed", error.getMessage());
        }
    }

    private static Object result(CachedSchemaRegistryClient client, JsonNode call) throws Exception {
        String subject = call.path(1).asText();
        String argument = call.path(2).asText();
        return switch (call.get(0).asText()) {
            case "register" -> client.register(subject, schema(argument));
            case "id" -> client.getId(subject, schema(argument));
            case "version" -> client.getVersion(subject, schema(argument));
            case "schema" -> client.getSchemaById(call.get(1).asInt()).canonicalString();
            case "subjects" -> client.getAllSubjects();
            case "versions" -> client.getAllVersions(subject);
            case "latest" -> latest(client.getLatestSchemaMetadata(subject));
            case "set-compatibility" -> client.updateCompatibility(subject, argument);
            case "compatibility" -> client.getCompatibility(subject);
            case "compatible" -> client.testCompatibility(subject, schema(argument));
            case "set-mode" -> client.setMode(argument, subject);
            case "mode" -> client.getMode(subject);
            case "delete" -> client.deleteSubject(subject, call.path(2).asBoolean());
            default -> throw new IllegalArgumentException(call.toString());
        };
    }

    private static ParsedSchema schema(String text) {
        return new AvroSchema(text);
    }

    private static Object latest(SchemaMetadata found) {
        return Map.of(
            "id", found.getId(), "version", found.getVersion(), "type", found.getSchemaType(), "schema", found.getSchema());
    }
}
