import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.DynamicMessage;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.config.SerdeConfig;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/**
 * Records with schemas, written to a topic and read from it by Kafka's clients. Standard input says in JSON which
 * (bootstrap, registry, topic, format, and what the format takes); values are JSON, by each format's own rules.
 */
public final class SchemaRecords {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** How values are made, written and read. */
    private interface Format {
        Serializer<Object> serializer();

        Deserializer<Object> deserializer();

        Object value(String json) throws Exception;

        String json(Object value) throws Exception;
    }

    private SchemaRecords() {
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        Format format = switch (request.get("format").asText()) {
            case "avro" -> avro(request);
            case "json" -> json(request);
            case "protobuf" -> protobuf(request);
            case "flink" -> flink(request);
            default -> throw new IllegalArgumentException(request.toString());
        };
        switch (arguments[0]) {
            case "produce" -> produce(request, format);
            case "consume" -> consume(request, format);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void produce(JsonNode request, Format format) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", request.get("bootstrap").asText());
        try (KafkaProducer<byte[], Object> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), format.serializer())) {
            for (JsonNode value : request.get("values")) {
                Object made = format.value(value.toString());
                producer.send(new ProducerRecord<>(request.get("topic").asText(), made)).get();
            }
        }
    }

    private static void consume(JsonNode request, Format format) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", request.get("bootstrap").asText());
        List<TopicPartition> partition = List.of(new TopicPartition(request.get("topic").asText(), 0));
        ArrayNode values = JSON.createArrayNode();
        try (KafkaConsumer<byte[], Object> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), format.deserializer())) {
            consumer.assign(partition);
            consumer.seekToBeginning(partition);
            while (values.size() < request.get("count").asInt()) {
                for (ConsumerRecord<byte[], Object> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(JSON.readTree(format.json(record.value())));
                }
            }
        }
        System.out.println(values);
    }

    /** Apicurio's properties: schemas from the test's registry, and Protobuf as Confluent writes it. */
    private static Map<String, Object> config(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        config.put(SerdeConfig.SCHEMA_RESOLVER, RegistryResolver.class.getName());
        config.put(RegistryResolver.URL, request.get("registry").asText());
        config.put(SerdeConfig.DEREFERENCE_SCHEMA, request.path("dereference").asBoolean());
        config.put(SerdeConfig.SEND_TYPE_REF, false);
        config.put(SerdeConfig.READ_TYPE_REF, false);
        config.put(SerdeConfig.SEND_INDEXES, true);
        config.put(SerdeConfig.READ_INDEXES, true);
        return config;
    }

    @SuppressWarnings("unchecked")
    private static Serializer<Object> configured(Serializer<?> serializer, Map<String, Object> config) {
        serializer.configure(config, false);
        return (Serializer<Object>) serializer;
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<Object> configured(Deserializer<?> deserializer, Map<String, Object> config) {
        deserializer.configure(config, false);
        return (Deserializer<Object>) deserializer;
    }

    private static Format avro(JsonNode request) {
        Schema schema = new Schema.Parser().parse(request.get("schema").asText());
        return new Format() {
            @Override
            public Serializer<Object> serializer() {
                return configured(new AvroKafkaSerializer<>(), config(request));
            }

            @Override
            public Deserializer<Object> deserializer() {
                return configured(new AvroKafkaDeserializer<>(), config(request));
            }

            @Override
            public Object value(String json) throws IOException {
                return new GenericDatumReader<>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json));
            }

            @Override
            public String json(Object value) throws IOException {
                Schema written = ((GenericRecord) value).getSchema();
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                JsonEncoder encoder = EncoderFactory.get().jsonEncoder(written, out);
                new GenericDatumWriter<>(written).write(value, encoder);
                encoder.flush();
                return out.toString();
            }
        };
    }

    private static Format json(JsonNode request) {
        Map<String, Object> config = config(request);
        config.put(RegistryResolver.SCHEMA, request.get("schema").asText());
        return new Format() {
            @Override
            public Serializer<Object> serializer() {
                return configured(new JsonSchemaKafkaSerializer<>(), config);
            }

            @Override
            public Deserializer<Object> deserializer() {
                return configured(new JsonSchemaKafkaDeserializer<>(), config);
            }

            @Override
            public Object value(String json) throws IOException {
                return JSON.readTree(json);
            }

            @Override
            public String json(Object value) {
                return value.toString();
            }
        };
    }

    private static Format protobuf(JsonNode request) throws Exception {
        List<String> files = new ArrayList<>();
        request.get("files").forEach(each -> files.add(each.asText()));
        ProtobufMessages.expected = request.get("message").asText();
        Descriptor descriptor = ProtobufMessages.descriptor(files, ProtobufMessages.expected);
        Map<String, Object> config = config(request);
        config.put(SerdeConfig.DESERIALIZER_SPECIFIC_VALUE_RETURN_CLASS, ProtobufMessages.class);
        // Its validation knows the messages at the top of a file only.
        config.put(SerdeConfig.VALIDATION_ENABLED, descriptor.getContainingType() == null);
        return new Format() {
            @Override
            public Serializer<Object> serializer() {
                return configured(new ProtobufKafkaSerializer<>(), config);
            }

            @Override
            public Deserializer<Object> deserializer() {
                return configured(new ProtobufKafkaDeserializer<>(), config);
            }

            @Override
            public Object value(String json) throws IOException {
                return ProtobufMessages.message(descriptor, json);
            }

            @Override
            public String json(Object value) throws IOException {
                return ProtobufMessages.json((DynamicMessage) value);
            }
        };
    }

    private static Format flink(JsonNode request) {
        FlinkAvro flink = new FlinkAvro(request.get("schema").asText(), request.get("registry").asText());
        return new Format() {
            @Override
            public Serializer<Object> serializer() {
                return flink.serializer(request.get("topic").asText());
            }

            @Override
            public Deserializer<Object> deserializer() {
                return flink.deserializer();
            }

            @Override
            public Object value(String json) throws IOException {
                return flink.record(json);
            }

            @Override
            public String json(Object value) throws IOException {
                return flink.json(value);
            }
        };
    }
}
