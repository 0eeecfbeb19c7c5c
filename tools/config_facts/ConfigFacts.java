// Prints what Apache Kafka's own configuration definitions say, as tab-separated rows: facts only, never documentation.
// Run with Kafka's jars on the class path: java -cp <jars> ConfigFacts.java
// Rows: def <table> <name> <type> <default> <importance> <internal> <validator>; mode <name> <mode>; dynamic <name>;
// topicsyn <topic name> <broker name> <unit>; groupsyn <group name> <broker name>; brokersyn <name> <synonyms>.

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigFacts {
    static void row(Object... cells) {
        StringBuilder line = new StringBuilder();
        for (Object cell : cells) {
            if (line.length() > 0) line.append('\t');
            line.append(cell == null ? "\\N" : cell.toString().replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n"));
        }
        System.out.println(line);
    }

    static String validator(ConfigDef.Validator validator) {
        if (validator == null) return "";
        String name = validator.getClass().getSimpleName();
        if (validator instanceof ConfigDef.ValidList) name += flag(validator, "isEmptyAllowed") + flag(validator, "isNullAllowed");
        return (name.contains("Lambda") ? "lambda" : name) + ":" + validator;
    }

    static String flag(Object object, String field) {
        try {
            Field declared = object.getClass().getDeclaredField(field);
            declared.setAccessible(true);
            return declared.getBoolean(object) ? "+" : "-";
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static void table(String name, Map<String, ConfigDef.ConfigKey> keys) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(keys).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "\u0001required";
            row("def", name, key.name, key.type, value, key.importance, key.internalConfig, validator(key.validator));
        }
    }

    public static void main(String[] args) {
        ConfigDef broker = kafka.server.KafkaConfig.configDef();
        table("broker", broker.configKeys());
        table("topic", LogConfig.configKeys());
        table("group", GroupConfig.CONFIG_DEF.configKeys());
        table("client_metrics", ClientMetricsConfigs.configDef().configKeys());
        table("quota", QuotaConfig.userAndClientQuotaConfigs().configKeys());
        table("broker_quota", QuotaConfig.brokerQuotaConfigs().configKeys());
        new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes()).forEach((name, mode) -> row("mode", name, mode));
        new java.util.TreeSet<>(DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS).forEach(name -> row("dynamic", name));
        new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).forEach((name, synonyms) -> {
            for (ConfigSynonym synonym : synonyms) row("topicsyn", name, synonym.name(), synonym.converter().apply("1"));
        });
        new TreeMap<>(GroupConfig.ALL_GROUP_CONFIG_SYNONYMS).forEach((name, synonym) -> row("groupsyn", name, synonym.orElse(null)));
        for (String name : new TreeMap<>(broker.configKeys()).keySet()) {
            List<String> synonyms = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (synonyms.size() > 1) row("brokersyn", name, String.join(",", synonyms));
        }
    }
}
