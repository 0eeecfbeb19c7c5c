import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.TimestampProto;
import com.google.protobuf.util.JsonFormat;
import io.apicurio.registry.resolver.ParsedSchema;
import io.apicurio.registry.resolver.ParsedSchemaImpl;
import io.apicurio.registry.serde.protobuf.ProtobufSchemaParser;
import io.apicurio.registry.utils.protobuf.schema.ProtobufSchema;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/** Messages by descriptors, in place of classes that protoc makes. */
public final class ProtobufMessages {
    static final String TIMESTAMP = "google/protobuf/timestamp.proto";

    /** What {@link #parseFrom} reads: the name of a message within its file, as {@code Order.Parcel}. */
    static String expected;

    private ProtobufMessages() {
    }

    /** The message of a name in the last of the files, each of which is given after those that it imports. */
    static Descriptor descriptor(Iterable<String> files, String name) throws Exception {
        Map<String, FileDescriptor> known = new HashMap<>();
        known.put(TIMESTAMP, TimestampProto.getDescriptor());
        FileDescriptor last = null;
        for (String each : files) {
            FileDescriptorProto file = FileDescriptorProto.parseFrom(Base64.getDecoder().decode(each));
            last = FileDescriptor.buildFrom(
                file, file.getDependencyList().stream().map(known::get).toArray(FileDescriptor[]::new));
            known.put(file.getName(), last);
        }
        return within(last, name);
    }

    /** The file of timestamps, as Apicurio's parser gives it to others. */
    static ParsedSchema<ProtobufSchema> timestamp() {
        FileDescriptor file = TimestampProto.getDescriptor();
        ProtobufSchema schema = new ProtobufSchema(file, new ProtobufSchemaParser<>().toProtoFileElement(file));
        return new ParsedSchemaImpl<ProtobufSchema>().setReferenceName(TIMESTAMP).setParsedSchema(schema);
    }

    private static Descriptor within(FileDescriptor file, String name) {
        String[] parts = name.split("\\.");
        Descriptor found = file.findMessageTypeByName(parts[0]);
        for (String part : Arrays.asList(parts).subList(1, parts.length)) {
            found = found.findNestedTypeByName(part);
        }
        return found;
    }

    static DynamicMessage message(Descriptor descriptor, String json) throws IOException {
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(descriptor);
        JsonFormat.parser().merge(json, builder);
        return builder.build();
    }

    static String json(DynamicMessage message) throws IOException {
        return JsonFormat.printer().omittingInsignificantWhitespace().print(message);
    }

    /** As a generated class has it; Apicurio's deserializer calls it. The message is read by the registry's schema. */
    public static DynamicMessage parseFrom(InputStream content) throws IOException {
        FileDescriptor file = ((ProtobufSchema) RegistryResolver.lastRead).getFileDescriptor();
        return DynamicMessage.parseFrom(within(file, expected), content);
    }
}
