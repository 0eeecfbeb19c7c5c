// Answers questions about configuration with Kafka's and Java's own classes, a line each on standard input; texts are
// in base64. "value <table> <name> <text>": the value as Kafka prints it, or "refused". "properties <text>" and
// "environment <name=value>...": names and values, sorted by name, or "refused". "start <text>": whether a broker would
// start with these properties, "accepted" or "refused".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigOracle {
    private static final Map<String, Map<String, ConfigDef.ConfigKey>> TABLES = Map.of(
        "broker", kafka.server.KafkaConfig.configDef().configKeys(),
        "topic", LogConfig.configKeys(),
        "group", GroupConfig.CONFIG_DEF.configKeys(),
        "client metrics", ClientMetricsConfigs.configDef().configKeys());

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String value(String table, String name, String text) {
        ConfigDef.ConfigKey key = TABLES.get(table).get(name);
        try {
            Object value = new ConfigDef().define(key).parse(Map.of(name, text)).get(name);
            return encoded(String.valueOf(ConfigDef.convertToString(value, key.type)));
        } catch (ConfigException error) {
            return "refused";
        }
    }

    private static String map(Map<?, ?> entries) {
        StringBuilder line = new StringBuilder("map");
        new TreeMap<Object, Object>(entries).forEach(
            (name, value) -> line.append(' ').append(encoded((String) name)).append(':').append(encoded((String) value)));
        return line.toString();
    }

    private static String properties(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
            return map(properties);
        } catch (IllegalArgumentException error) {
            return "refused";
        }
    }

    private static String environment(String[] words) {
        Map<String, String> environment = new HashMap<>();
        for (int index = 1; index < words.length; index++) {
            String[] parts = decoded(words[index]).split("=", 2);
            environment.put(parts[0], parts[1]);
        }
        Map<String, String> told = new HashMap<>();
        scala.collection.Iterator<String> lines = kafka.docker.KafkaDockerWrapper$.MODULE$
            .getServerConfigsFromEnv(scala.collection.immutable.Map.from(
                scala.jdk.javaapi.CollectionConverters.asScala(environment))).iterator();
        while (lines.hasNext()) {
            String line = lines.next().trim();
            if (!line.isEmpty()) told.put(line.split("=", 2)[0], line.split("=", 2)[1]);
        }
        return map(told);
    }

    private static String start(String text) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        try {
            kafka.server.KafkaConfig.fromProps(properties, false);
            return "accepted";
        } catch (ConfigException | IllegalArgumentException error) {
            return "refused";
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = reader.readLine()) != null; ) {
            String[] words = line.split(" ");
            System.out.println(switch (words[0]) {
                case "value" -> value(decoded(words[1]), decoded(words[2]), words.length > 3 ? decoded(words[3]) : "");
                case "properties" -> properties(words.length > 1 ? decoded(words[1]) : "");
                case "start" -> start(decoded(words[1]));
                default -> environment(words);
            });
        }
    }
}
