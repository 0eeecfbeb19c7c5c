import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.JsonEncoder;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroSerializationSchema;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/** Flink's serialization, which takes schemas from Confluent's client, for Kafka's clients. */
final class FlinkAvro {
    private final Schema schema;
    private final String registry;

    FlinkAvro(String schema, String registry) {
        this.schema = new Schema.Parser().parse(schema);
        this.registry = registry;
    }

    Serializer<Object> serializer(String topic) {
        ConfluentRegistryAvroSerializationSchema<GenericRecord> made =
            ConfluentRegistryAvroSerializationSchema.forGeneric(topic + "-value", schema, registry);
        return (to, record) -> made.serialize((GenericRecord) record);
    }

    Deserializer<Object> deserializer() {
        ConfluentRegistryAvroDeserializationSchema<GenericRecord> made =
            ConfluentRegistryAvroDeserializationSchema.forGeneric(schema, registry);
        return (from, content) -> {
            try {
                return made.deserialize(content);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        };
    }

    Object record(String json) throws IOException {
        return new GenericDatumReader<GenericRecord>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json));
    }

    String json(Object record) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(schema, out);
        new GenericDatumWriter<GenericRecord>(schema).write((GenericRecord) record, encoder);
        encoder.flush();
        return out.toString();
    }
}
