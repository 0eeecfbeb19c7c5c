import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Answers questions about ACLs with Kafka's StandardAuthorizer, for campaigns/acls/decisions.py.
 *
 * A question is a line of JSON: [allow everyone, super users, [ACL...], [asked...], [filter...]]. An ACL or filter is
 * [resource type, pattern type, name, principal, host, operation, permission], with codes; something asked is
 * [principal type, principal name, host, operation, resource type, name], where a null name asks about the type. A line
 * without text ends a batch, whose answers are then written, a line each: for each thing asked "1" or "0", then for
 * each filter a blank and, for each ACL, "1" if the filter matches it or "0".
 */
public class AclOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final StandardAuthorizer authorizer = newAuthorizer();

    public static void main(String[] arguments) throws Exception {
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
    }

    private static StandardAuthorizer newAuthorizer() {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        return authorizer;
    }

    private static String answer(JsonNode question) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("node.id", "1");
        configs.put("allow.everyone.if.no.acl.found", question.get(0).asText());
        configs.put("super.users", question.get(1).asText());
        authorizer.configure(configs);
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        List<AclBinding> bindings = new ArrayList<>();
        for (JsonNode acl : question.get(2)) {
            StandardAcl standard = new StandardAcl(ResourceType.fromCode(code(acl, 0)), acl.get(2).asText(),
                PatternType.fromCode(code(acl, 1)), acl.get(3).asText(), acl.get(4).asText(),
                AclOperation.fromCode(code(acl, 5)), AclPermissionType.fromCode(code(acl, 6)));
            acls.put(Uuid.randomUuid(), standard);
            bindings.add(standard.toBinding());
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        StringBuilder answer = new StringBuilder();
        for (JsonNode asked : question.get(3))
            answer.append(decision(asked) == AuthorizationResult.ALLOWED ? '1' : '0');
        for (JsonNode each : question.get(4)) {
            AclBindingFilter filter = new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.fromCode(code(each, 0)), text(each, 2),
                    PatternType.fromCode(code(each, 1))),
                new AccessControlEntryFilter(text(each, 3), text(each, 4), AclOperation.fromCode(code(each, 5)),
                    AclPermissionType.fromCode(code(each, 6))));
            answer.append(' ');
            for (AclBinding binding : bindings)
                answer.append(filter.matches(binding) ? '1' : '0');
        }
        return answer.toString();
    }

    private static AuthorizationResult decision(JsonNode asked) throws Exception {
        Client client = new Client(new KafkaPrincipal(asked.get(0).asText(), asked.get(1).asText()),
            InetAddress.getByName(asked.get(2).asText()));
        AclOperation operation = AclOperation.fromCode(code(asked, 3));
        ResourceType type = ResourceType.fromCode(code(asked, 4));
        if (asked.get(5).isNull())
            return authorizer.authorizeByResourceType(client, operation, type);
        ResourcePattern resource = new ResourcePattern(type, asked.get(5).asText(), PatternType.LITERAL);
        return authorizer.authorize(client, List.of(new Action(operation, resource, 1, false, false))).get(0);
    }

    private static byte code(JsonNode fields, int index) {
        return (byte) fields.get(index).asInt();
    }

    private static String text(JsonNode fields, int index) {
        return fields.get(index).isNull() ? null : fields.get(index).asText();
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "EXTERNAL";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "client";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
