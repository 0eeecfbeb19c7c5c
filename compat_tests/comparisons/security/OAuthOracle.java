// Answers questions about OAUTHBEARER with Kafka's own classes, a line of JSON each way. {"first": base64}: what is in
// a client's first message. {"token", "validator", "configs", "options"}: what a validator says about a token, with
// these properties and JAAS options; "unsecured" is the callback handler for unsecured tokens, others are the names of
// classes. Whatever is refused is {"refused": text}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.JwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

public class OAuthOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
    private static final Map<String, JwtValidator> VALIDATORS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(MAPPER.readTree(line));
            } catch (Exception | StackOverflowError e) {
                answer = MAPPER.createObjectNode().put("refused", String.valueOf(e.getMessage()));
            }
            output.println(MAPPER.writeValueAsString(answer));
            output.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        return question.has("first") ? first(question.get("first").binaryValue()) : token(question);
    }

    private static ObjectNode first(byte[] message) throws Exception {
        OAuthBearerClientInitialResponse response = new OAuthBearerClientInitialResponse(message);
        ObjectNode answer = MAPPER.createObjectNode();
        answer.put("token", response.tokenValue());
        answer.put("identity", response.authorizationId());
        ObjectNode extensions = answer.putObject("extensions");
        new TreeMap<>(response.extensions().map()).forEach(extensions::put);
        return answer;
    }

    private static ObjectNode token(JsonNode question) throws Exception {
        String text = question.get("token").asText();
        Map<String, String> options = new HashMap<>();
        question.get("options").properties().forEach(each -> options.put(each.getKey(), each.getValue().asText()));
        List<AppConfigurationEntry> entries = List.of(
            new AppConfigurationEntry(MODULE, AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options));
        String name = question.get("validator").asText();
        if (name.equals("unsecured"))
            return unsecured(text, entries);
        Map<String, Object> configs = configs(question.get("configs"));
        String key = name + configs;
        JwtValidator validator = VALIDATORS.get(key);
        if (validator == null) {
            validator = (JwtValidator) Class.forName(name).getDeclaredConstructor().newInstance();
            validator.configure(configs, "OAUTHBEARER", entries);
            VALIDATORS.put(key, validator);
        }
        return accepted(validator.validate(text));
    }

    private static Map<String, Object> configs(JsonNode given) {
        Map<String, Object> configs = new TreeMap<>();
        given.properties().forEach(each -> {
            JsonNode value = each.getValue();
            if (value.isArray()) {
                List<String> list = new ArrayList<>();
                value.forEach(item -> list.add(item.asText()));
                configs.put(each.getKey(), list);
            } else if (value.isInt()) {
                configs.put(each.getKey(), value.asInt());
            } else {
                configs.put(each.getKey(), value.asText());
            }
        });
        Object url = configs.get("sasl.oauthbearer.jwks.endpoint.url");
        if (url != null)
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url.toString());
        return configs;
    }

    private static ObjectNode unsecured(String text, List<AppConfigurationEntry> entries) throws Exception {
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Map.of(), "OAUTHBEARER", entries);
        OAuthBearerValidatorCallback callback = new OAuthBearerValidatorCallback(text);
        handler.handle(new Callback[] {callback});
        if (callback.token() != null)
            return accepted(callback.token());
        ObjectNode answer = MAPPER.createObjectNode().put("refused", callback.errorStatus());
        return answer.put("scope", callback.errorScope());
    }

    private static ObjectNode accepted(OAuthBearerToken token) {
        ObjectNode answer = MAPPER.createObjectNode();
        return answer.put("subject", token.principalName()).put("expires_ms", token.lifetimeMs());
    }
}
