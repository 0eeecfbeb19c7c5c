import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Counts words (topic "words": user to word), and each user's words by session, exactly once.
 *
 * <p>Arguments: bootstrap, state directory, gap of sessions in ms, then Streams' properties as name=value. Results go
 * to the topics "counts" (word to count, every step of it) and "sessions" ("user@start-end" to count). The tables
 * are answered from their stores over HTTP: /counts, /count/WORD, /sessions/USER; the port is in the state
 * directory's file "port". What cannot be answered now (a rebalance, a restoration) has status 503.
 */
public final class WordsApplication {
    public static void main(String[] arguments) throws Exception {
        Path directory = Files.createDirectories(Path.of(arguments[1]));
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("state.dir", arguments[1]);
        properties.put("application.id", "words");
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("replication.factor", 1);
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put("main.consumer.auto.offset.reset", "earliest");
        for (int index = 3; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(Long.parseLong(arguments[2])).build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> {
            System.err.println(before + " -> " + now);
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        answer(streams, directory);
        streams.start();
    }

    private static StreamsBuilder topology(long gapMs) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream("words", Consumed.with(Serdes.String(), Serdes.String()));
        words.groupBy((user, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        words.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(gapMs), Duration.ofHours(12)))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream((session, count) -> session.key() + "@" + bounds(session))
            .to("sessions", Produced.with(Serdes.String(), Serdes.Long()));
        return builder;
    }

    private static String bounds(Windowed<String> session) {
        return session.window().start() + "-" + session.window().end();
    }

    private static void answer(KafkaStreams streams, Path directory) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            try {
                send(exchange, 200, look(streams, exchange.getRequestURI().getPath().split("/")));
            } catch (InvalidStateStoreException | IllegalStateException error) {
                send(exchange, 503, error.toString());
            }
        });
        server.start();
        Path partial = Files.writeString(directory.resolve("port.partial"), "" + server.getAddress().getPort());
        Files.move(partial, directory.resolve("port"), StandardCopyOption.ATOMIC_MOVE);
    }

    /** Lines of "key tab count". */
    private static String look(KafkaStreams streams, String[] path) {
        StringBuilder out = new StringBuilder();
        if (path[1].equals("sessions")) {
            ReadOnlySessionStore<String, Long> store = streams.store(
                StoreQueryParameters.fromNameAndType("sessions", QueryableStoreTypes.sessionStore()));
            try (KeyValueIterator<Windowed<String>, Long> found = store.fetch(path[2])) {
                while (found.hasNext()) {
                    KeyValue<Windowed<String>, Long> one = found.next();
                    out.append(bounds(one.key)).append('\t').append(one.value).append('\n');
                }
            }
            return out.toString();
        }
        ReadOnlyKeyValueStore<String, Long> store = streams.store(
            StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
        if (path[1].equals("count")) {
            return path[2] + "\t" + store.get(path[2]) + "\n";
        }
        try (KeyValueIterator<String, Long> found = store.all()) {
            while (found.hasNext()) {
                KeyValue<String, Long> one = found.next();
                out.append(one.key).append('\t').append(one.value).append('\n');
            }
        }
        return out.toString();
    }

    private static void send(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
