import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.network.ConnectionQuotas;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory;
import kafka.server.metadata.ClientQuotaMetadataManager;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.metadata.ClientQuotaRecord.EntityData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.ClientQuotaImage;
import org.apache.kafka.image.ClientQuotasDelta;
import org.apache.kafka.image.ClientQuotasImage;
import org.apache.kafka.server.quota.ClientQuotaCallback;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientQuotaType;

/**
 * Says which quotas apply to clients with the classes of a broker, for campaigns/quotas/precedence.py.
 *
 * A question is a line of JSON: [[[[type, name]...], {key: limit...}]..., [[key, user, client id]...], [address...]].
 * The first list has all quotas from now on: what differs from the question before is changed, as a broker does that
 * follows the metadata. A line without text ends a batch, whose answers are then written, a line each: for each client
 * the limit, "u" if the usage of its user is measured and "c" if that of its client id is; for each address the limit;
 * "-" stands for no limit.
 */
public class QuotaOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Metrics metrics = new Metrics();
    private static KafkaConfig config;
    private static QuotaFactory.QuotaManagers managers;
    private static ConnectionQuotas connections;
    private static ClientQuotaMetadataManager follower;
    private static ClientQuotasImage image = ClientQuotasImage.EMPTY;

    public static void main(String[] arguments) throws Exception {
        start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
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
        System.exit(0);
    }

    private static void start() {
        Properties properties = new Properties();
        properties.put("process.roles", "broker");
        properties.put("node.id", "1");
        properties.put("controller.quorum.voters", "2@localhost:9093");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("listeners", "PLAINTEXT://localhost:9092");
        config = KafkaConfig.fromProps(properties, false);
        managers = QuotaFactory.instantiate(config, metrics, Time.SYSTEM, "oracle", "broker");
        connections = new ConnectionQuotas(config, Time.SYSTEM, metrics);
        follower = new ClientQuotaMetadataManager(managers, connections);
    }

    private static String answer(JsonNode question) throws Exception {
        follow(question.get(0));
        StringBuilder answer = new StringBuilder();
        for (JsonNode asked : question.get(1))
            answer.append(' ').append(limit(asked.get(0).asText(), asked.get(1).asText(), asked.get(2).asText()));
        for (JsonNode address : question.get(2)) {
            int limit = connections.connectionRateForIp(InetAddress.getByName(address.asText()));
            answer.append(' ').append(limit == Integer.MAX_VALUE ? "-" : String.valueOf(limit));
        }
        return answer.substring(1);
    }

    private static void follow(JsonNode quotas) {
        Map<ClientQuotaEntity, JsonNode> wanted = new HashMap<>();
        for (JsonNode each : quotas)
            wanted.put(entity(each.get(0)), each.get(1));
        ClientQuotasDelta removed = new ClientQuotasDelta(image);
        for (Map.Entry<ClientQuotaEntity, ClientQuotaImage> each : image.entities().entrySet())
            for (String key : each.getValue().quotas().keySet())
                if (!wanted.containsKey(each.getKey()) || !wanted.get(each.getKey()).has(key))
                    removed.replay(record(each.getKey(), key).setRemove(true));
        apply(removed);
        ClientQuotasDelta added = new ClientQuotasDelta(image);
        for (Map.Entry<ClientQuotaEntity, JsonNode> each : wanted.entrySet()) {
            for (Iterator<String> keys = each.getValue().fieldNames(); keys.hasNext();) {
                String key = keys.next();
                added.replay(record(each.getKey(), key).setValue(each.getValue().get(key).asDouble()));
            }
        }
        apply(added);
    }

    private static void apply(ClientQuotasDelta delta) {
        image = delta.apply();
        follower.accept(delta);
    }

    private static ClientQuotaEntity entity(JsonNode names) {
        Map<String, String> entries = new HashMap<>();
        for (JsonNode each : names)
            entries.put(each.get(0).asText(), each.get(1).isNull() ? null : each.get(1).asText());
        return new ClientQuotaEntity(entries);
    }

    private static ClientQuotaRecord record(ClientQuotaEntity entity, String key) {
        List<EntityData> names = new ArrayList<>();
        entity.entries().forEach((type, name) -> names.add(new EntityData().setEntityType(type).setEntityName(name)));
        return new ClientQuotaRecord().setEntity(names).setKey(key);
    }

    private static String limit(String key, String user, String clientId) throws Exception {
        ClientQuotaManager manager = manager(key);
        Field field = ClientQuotaManager.class.getDeclaredField("quotaCallback");
        field.setAccessible(true);
        ClientQuotaCallback callback = (ClientQuotaCallback) field.get(manager);
        KafkaPrincipal principal = new KafkaPrincipal("User", user);
        ClientQuotaType type = type(key);
        Map<String, String> tags = callback.quotaMetricTags(type, principal, clientId);
        Double limit = callback.quotaLimit(type, tags);
        if (limit == null)
            return "-";
        String text = String.valueOf(limit.longValue());
        if (!tags.get("user").isEmpty())
            text += Sanitizer.desanitize(tags.get("user")).equals(user) ? "u" : "?";
        if (!tags.get("client-id").isEmpty())
            text += tags.get("client-id").equals(clientId) ? "c" : "?";
        return text;
    }

    private static ClientQuotaManager manager(String key) {
        switch (key) {
            case "producer_byte_rate": return managers.produce();
            case "consumer_byte_rate": return managers.fetch();
            case "request_percentage": return managers.request();
            default: return managers.controllerMutation();
        }
    }

    private static ClientQuotaType type(String key) {
        switch (key) {
            case "producer_byte_rate": return ClientQuotaType.PRODUCE;
            case "consumer_byte_rate": return ClientQuotaType.FETCH;
            case "request_percentage": return ClientQuotaType.REQUEST;
            default: return ClientQuotaType.CONTROLLER_MUTATION;
        }
    }
}
