import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.SimpleRate;

/**
 * Prints the rates that Kafka's replication quotas rest on. A line is "new WINDOWS SECONDS", "record MS BYTES" or
 * "rate MS", which is answered with bytes per second.
 */
public final class RateOracle {
    public static void main(String[] arguments) {
        SimpleRate rate = null;
        MetricConfig config = null;
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ");
            long number = Long.parseLong(words[1]);
            switch (words[0]) {
                case "new" -> {
                    rate = new SimpleRate();
                    config = new MetricConfig().samples((int) number)
                        .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS);
                }
                case "record" -> rate.record(config, Long.parseLong(words[2]), number);
                default -> System.out.println(rate.measure(config, number));
            }
        }
    }
}
