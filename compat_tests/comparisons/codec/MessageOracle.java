import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's own message classes, driven over standard input and output: one JSON object per line each way.
 *
 * A question names a class and a version. "encode" lists [version to read the JSON in, JSON] (null: the defaults), and
 * is answered by the bytes in the version; "decode" lists bytes, and is answered by what Java writes after reading
 * them. Bytes are base64; an exception is "!" and its class.
 */
public final class MessageOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(answer(MAPPER.readTree(line)));
            output.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        String name = question.get("class").asText();
        short version = (short) question.get("version").asInt();
        Class<?> type = Class.forName(name);
        Method fromJson = Class.forName(name + "JsonConverter").getMethod("read", JsonNode.class, short.class);
        ObjectNode answer = MAPPER.createObjectNode();
        ArrayNode encoded = answer.putArray("encode");
        for (JsonNode each : question.get("encode")) {
            encoded.add(guarded(() -> write(instance(type, fromJson, each), version)));
        }
        ArrayNode decoded = answer.putArray("decode");
        for (JsonNode each : question.get("decode")) {
            decoded.add(guarded(() -> write(read(type, each.asText(), version), version)));
        }
        return answer;
    }

    private static Message instance(Class<?> type, Method fromJson, JsonNode pair) throws Exception {
        if (pair.get(1).isNull()) {
            return (Message) type.getConstructor().newInstance();
        }
        return (Message) fromJson.invoke(null, pair.get(1), (short) pair.get(0).asInt());
    }

    private static Message read(Class<?> type, String text, short version) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(Base64.getDecoder().decode(text));
        Message message = (Message) type.getConstructor().newInstance();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes left");
        }
        return message;
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("shorter than its size");
        }
        return buffer.array();
    }

    private interface Work {
        byte[] run() throws Exception;
    }

    private static String guarded(Work work) {
        try {
            return Base64.getEncoder().encodeToString(work.run());
        } catch (InvocationTargetException error) {
            return "!" + error.getCause();
        } catch (Exception error) {
            return "!" + error;
        }
    }
}
