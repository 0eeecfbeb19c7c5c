import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * The errors that Kafka counts in responses. A line of input: API key, version, the body in hexadecimal digits; a line
 * of output: a JSON object of error codes and counts, or null if Kafka's class does not take what is in the body.
 */
public final class ErrorCounts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(counts(Integer.parseInt(words[0]), Short.parseShort(words[1]), words[2]));
        }
    }

    private static String counts(int api, short version, String hexadecimal) {
        ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hexadecimal)));
        Map<Short, Integer> counts = new TreeMap<>();
        try {
            AbstractResponse response = AbstractResponse.parseResponse(ApiKeys.forId(api), body, version);
            response.errorCounts().forEach((error, count) -> counts.put(error.code(), count));
        } catch (IllegalArgumentException | IllegalStateException invalid) {
            return "null";
        }
        StringBuilder text = new StringBuilder();
        counts.forEach((code, count) ->
                text.append(text.length() == 0 ? "" : ", ").append("\"" + code + "\": " + count));
        return "{" + text + "}";
    }
}
