import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's client as `producer.py` runs the others: a record at a steady rate, a line for each that is acknowledged. */
public final class SteadyProducer {
    public static void main(String[] words) throws Exception {
        String topic = words[1];
        long intervalNs = 1_000_000_000L / Long.parseLong(words[2]);
        PrintStream out = new PrintStream(Files.newOutputStream(Path.of(words[3])), true);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", words[0]);
        config.put("acks", "all");
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, serializer, serializer)) {
            producer.partitionsFor(topic);
            long begun = System.nanoTime();
            for (long number = 0; System.in.available() == 0; number++) {
                long due = begun + number * intervalNs - System.nanoTime();
                if (due > 0) Thread.sleep(due / 1_000_000, (int) (due % 1_000_000));
                send(producer, topic, number, out);
            }
            producer.flush();
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, long number, PrintStream out) {
        byte[] value = Arrays.copyOf(Long.toString(number).getBytes(), 100);
        Arrays.fill(value, Long.toString(number).length(), 100, (byte) ' ');
        producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
            String told = error == null ? Long.toString(metadata.offset()) : error.getClass().getSimpleName();
            out.println(number + " " + System.nanoTime() + " " + told);
        });
    }
}
