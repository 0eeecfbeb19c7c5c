import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.quota.AbstractControllerMutationQuota;
import org.apache.kafka.server.quota.PermissiveControllerMutationQuota;
import org.apache.kafka.server.quota.QuotaUtils;
import org.apache.kafka.server.quota.StrictControllerMutationQuota;

/**
 * Measures with Kafka's Rate, QuotaUtils, TokenBucket and controller mutation quotas, for campaigns/quotas/rates.py.
 *
 * A question is a line of JSON: [kind, windows, seconds of a window, bound, [[ms, [number...]]...]]. Each step happens
 * at a time. "rate": the numbers are recorded; the answer is "rate,window,throttle time". "strict", "permissive": the
 * numbers are permits of one request; the answer is one "1" or "0" for each (whether it was granted), then
 * ",throttle time,tokens". The answers of a question's steps are separated by blanks. A line without text ends a batch.
 */
public class RateOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final MetricName NAME = new MetricName("x", "x", "", Map.of());
    private static final Clock clock = new Clock();

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

    private static String answer(JsonNode question) {
        double bound = question.get(3).asDouble();
        MetricConfig config = new MetricConfig()
            .samples(question.get(1).asInt())
            .timeWindow(question.get(2).asInt(), TimeUnit.SECONDS)
            .quota(new Quota(bound, true));
        String kind = question.get(0).asText();
        return kind.equals("rate") ? rates(config, bound, question.get(4)) : permits(kind, config, question.get(4));
    }

    private static String rates(MetricConfig config, double bound, JsonNode steps) {
        Rate rate = new Rate();
        KafkaMetric metric = new KafkaMetric(new Object(), NAME, rate, config, clock);
        List<String> answers = new ArrayList<>();
        for (JsonNode step : steps) {
            long now = step.get(0).asLong();
            for (JsonNode number : step.get(1))
                rate.record(config, number.asDouble(), now);
            double value = rate.measure(config, now);
            long throttle = QuotaUtils.throttleTime(new QuotaViolationException(metric, value, bound), now);
            answers.add(value + "," + rate.windowSize(config, now) + "," + Math.min(throttle, Integer.MAX_VALUE));
        }
        return String.join(" ", answers);
    }

    private static String permits(String kind, MetricConfig config, JsonNode steps) {
        Metrics metrics = new Metrics(clock);
        Sensor sensor = metrics.sensor("x");
        TokenBucket bucket = new TokenBucket();
        sensor.add(NAME, bucket, config);
        List<String> answers = new ArrayList<>();
        for (JsonNode step : steps) {
            clock.now = step.get(0).asLong();
            AbstractControllerMutationQuota quota = kind.equals("strict")
                ? new StrictControllerMutationQuota(clock, sensor)
                : new PermissiveControllerMutationQuota(clock, sensor);
            StringBuilder granted = new StringBuilder();
            for (JsonNode number : step.get(1)) {
                try {
                    quota.record(number.asDouble());
                    granted.append('1');
                } catch (ThrottlingQuotaExceededException refused) {
                    granted.append('0');
                }
            }
            answers.add(granted + "," + quota.throttleTime() + "," + bucket.measure(config, clock.now));
        }
        metrics.close();
        return String.join(" ", answers);
    }

    private static class Clock implements Time {
        long now = 0;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public long hiResClockMs() {
            return now;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
