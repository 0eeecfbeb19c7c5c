package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import com.yammer.metrics.core.Meter;
import com.yammer.metrics.core.Metric;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricsRegistry;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.mockito.Mockito;

/**
 * What a test sees in place of the metrics in its own JVM: the meters of the brokers, each with the sum of their counts,
 * as they are when the test looks for metrics.
 */
final class ExternalMetrics extends MetricsRegistry {
    private ExternalMetrics() {
    }

    /** Puts such metrics into the place where tests look for them. */
    static void install() {
        try {
            Field registry = KafkaYammerMetrics.class.getDeclaredField("metricsRegistry");
            registry.setAccessible(true);
            registry.set(KafkaYammerMetrics.INSTANCE, new ExternalMetrics());
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    @Override
    public Map<MetricName, Metric> allMetrics() {
        Map<MetricName, Metric> found = new HashMap<>(super.allMetrics());
        JsonNode counts = Launcher.get().ask(Map.of("do", "metrics")).get("counts");
        counts.properties().forEach(each -> found.put(name(each.getKey()), meter(each.getValue().asLong())));
        return found;
    }

    /** The name in a name such as "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs". */
    private static MetricName name(String whole) {
        int colon = whole.indexOf(':');
        Map<String, String> parts = new HashMap<>();
        for (String part : whole.substring(colon + 1).split(",")) {
            String[] pair = part.split("=", 2);
            parts.put(pair[0], pair.length > 1 ? pair[1] : "");
        }
        return new MetricName(whole.substring(0, colon), parts.getOrDefault("type", ""),
            parts.getOrDefault("name", ""), null, whole);
    }

    private static Meter meter(long count) {
        Meter meter = Mockito.mock(Meter.class, Mockito.withSettings().stubOnly());
        Mockito.when(meter.count()).thenReturn(count);
        return meter;
    }
}
