import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Scanner;
import org.apache.kafka.metadata.placement.*;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;

/**
 * Reads clusters line by line and prints where Kafka's StripedReplicaPlacer puts new partitions. A line has the number
 * that is drawn each time (modulo the bound), the number of partitions, the replication factor and the brokers,
 * rack:live or fenced, with - for no rack.
 */
public class PlacementOracle {
    /** Draws the same number each time, so that nothing depends on the order in which Kafka visits a HashMap. */
    static class Constant extends Random {
        private final int number;

        Constant(int number) {
            this.number = number;
        }

        @Override
        public int nextInt(int bound) {
            return number % bound;
        }
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            String[] fields = in.nextLine().split(" ");
            List<UsableBroker> brokers = new ArrayList<>();
            for (int i = 3; i < fields.length; i++) {
                String[] parts = fields[i].split(":");
                Optional<String> rack = parts[0].equals("-") ? Optional.empty() : Optional.of(parts[0]);
                brokers.add(new UsableBroker(i - 3, rack, parts[1].equals("fenced")));
            }
            System.out.println(answer(new Constant(Integer.parseInt(fields[0])),
                new PlacementSpec(0, Integer.parseInt(fields[1]), Short.parseShort(fields[2])), brokers));
        }
    }

    static String answer(Random random, PlacementSpec spec, List<UsableBroker> brokers) {
        ClusterDescriber cluster = new ClusterDescriber() {
            @Override
            public java.util.Iterator<UsableBroker> usableBrokers() {
                return brokers.iterator();
            }

            @Override
            public Uuid defaultDir(int broker) {
                return DirectoryId.UNASSIGNED;
            }
        };
        try {
            StringBuilder text = new StringBuilder();
            for (PartitionAssignment each : new StripedReplicaPlacer(random).place(spec, cluster).assignments()) {
                text.append(each.replicas().toString().replace(" ", "")).append(" ");
            }
            return text.toString().trim();
        } catch (Exception e) {
            return e.getMessage();
        }
    }
}
