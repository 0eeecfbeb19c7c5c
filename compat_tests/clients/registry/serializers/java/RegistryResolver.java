import io.apicurio.registry.resolver.ParsedSchema;
import io.apicurio.registry.resolver.ParsedSchemaImpl;
import io.apicurio.registry.resolver.SchemaLookupResult;
import io.apicurio.registry.resolver.SchemaParser;
import io.apicurio.registry.resolver.SchemaResolver;
import io.apicurio.registry.resolver.client.RegistryClientFacade;
import io.apicurio.registry.resolver.config.SchemaResolverConfig;
import io.apicurio.registry.resolver.data.Record;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.resolver.strategy.ArtifactReferenceResolverStrategy;
import io.apicurio.registry.serde.data.SerdeMetadata;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Schema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaString;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.requests.RegisterSchemaRequest;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/**
 * Where Apicurio's serializers have their schemas from: a registry with Confluent's interface, which Confluent's own
 * client calls. A value's subject is the topic's name with -value; what a schema refers to has the name of the
 * reference.
 */
public final class RegistryResolver<S, T> implements SchemaResolver<S, T> {
    static final String URL = "test.registry.url";
    /** The schema of values that do not have theirs with them, as those of JSON Schema. */
    static final String SCHEMA = "test.schema";
    /** Protobuf's own files are known everywhere. */
    private static final String WELL_KNOWN = "google/protobuf/";

    /** The schema, by Apicurio's parser, of what was read last. */
    static Object lastRead;

    private SchemaParser<S, T> parser;
    private RestService registry;
    private String given;
    private boolean dereference;

    @Override
    public void configure(Map<String, ?> configs, SchemaParser<S, T> parser) {
        this.parser = parser;
        registry = new RestService((String) configs.get(URL));
        given = (String) configs.get(SCHEMA);
        dereference = Boolean.TRUE.equals(configs.get(SchemaResolverConfig.DEREFERENCE_SCHEMA));
    }

    @Override
    public SchemaLookupResult<S> resolveSchema(Record<T> data) {
        SerdeMetadata metadata = (SerdeMetadata) data.metadata();
        String subject = metadata.getTopic() + (metadata.isKey() ? "-key" : "-value");
        ParsedSchema<S> schema =
            given == null ? parser.getSchemaFromData(data, dereference) : parsed(null, given, Map.of());
        try {
            return result(schema, registry.registerSchema(request(schema), subject, false).getId());
        } catch (IOException | RestClientException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public SchemaLookupResult<S> resolveSchemaByArtifactReference(ArtifactReference reference) {
        int id = reference.getContentId().intValue();
        try {
            SchemaString found = registry.getId(id);
            ParsedSchema<S> schema = parsed(null, found.getSchemaString(), referenced(found.getReferences()));
            lastRead = schema.getParsedSchema();
            return result(schema, id);
        } catch (IOException | RestClientException error) {
            throw new IllegalStateException(error);
        }
    }

    private static <S> SchemaLookupResult<S> result(ParsedSchema<S> schema, int id) {
        return SchemaLookupResult.<S>builder().parsedSchema(schema).contentId(id).globalId(id).build();
    }

    /** A request with a schema. What it refers to is registered by it. */
    private RegisterSchemaRequest request(ParsedSchema<S> schema) throws IOException, RestClientException {
        List<SchemaReference> references = new ArrayList<>();
        for (ParsedSchema<S> each : schema.hasReferences() ? schema.getSchemaReferences() : List.<ParsedSchema<S>>of()) {
            String name = each.referenceName();
            if (!name.startsWith(WELL_KNOWN)) {
                RegisterSchemaRequest referred = request(each);
                registry.registerSchema(referred, name, false);
                int version = registry.lookUpSubjectVersion(referred, name, false, false).getVersion();
                references.add(new SchemaReference(name, name, version));
            }
        }
        RegisterSchemaRequest request = new RegisterSchemaRequest();
        request.setSchemaType(parser.artifactType());
        request.setSchema(new String(schema.getRawSchema(), StandardCharsets.UTF_8));
        request.setReferences(references);
        return request;
    }

    /** What a schema refers to; with references, Apicurio's parser does not know Protobuf's own files by itself. */
    @SuppressWarnings("unchecked")
    private Map<String, ParsedSchema<S>> referenced(List<SchemaReference> references)
            throws IOException, RestClientException {
        Map<String, ParsedSchema<S>> found = new LinkedHashMap<>();
        if (parser.artifactType().equals("PROTOBUF")) {
            found.put(ProtobufMessages.TIMESTAMP, (ParsedSchema<S>) ProtobufMessages.timestamp());
        }
        for (SchemaReference each : references == null ? List.<SchemaReference>of() : references) {
            Schema schema = registry.getVersion(each.getSubject(), each.getVersion());
            found.put(each.getName(), parsed(each.getName(), schema.getSchema(), referenced(schema.getReferences())));
        }
        return found;
    }

    private ParsedSchema<S> parsed(String name, String text, Map<String, ParsedSchema<S>> references) {
        byte[] raw = text.getBytes(StandardCharsets.UTF_8);
        return new ParsedSchemaImpl<S>()
            .setReferenceName(name)
            .setRawSchema(raw)
            .setParsedSchema(parser.parseSchema(raw, references))
            .setSchemaReferences(new ArrayList<>(references.values()));
    }

    @Override
    public SchemaParser<S, T> getSchemaParser() {
        return parser;
    }

    @Override
    public void setClientFacade(RegistryClientFacade facade) {
    }

    @Override
    public void setArtifactResolverStrategy(ArtifactReferenceResolverStrategy<S, T> strategy) {
    }

    @Override
    public void reset() {
    }

    @Override
    public void close() throws IOException {
        registry.close();
    }
}
