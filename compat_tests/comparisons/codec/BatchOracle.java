import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.compress.GzipCompression;
import org.apache.kafka.common.compress.Lz4Compression;
import org.apache.kafka.common.compress.ZstdCompression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/** Answers one line for each line of standard input: batches written and read by Kafka's own classes. */
public class BatchOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ")));
            out.flush();
        }
    }

    private static String answer(String[] words) {
        try {
            return switch (words[0]) {
                case "write" -> Base64.getEncoder().encodeToString(write(words));
                case "marker" -> Base64.getEncoder().encodeToString(marker(words));
                case "read" -> read(Base64.getDecoder().decode(words[1]));
                default -> "error unknown command";
            };
        } catch (Throwable error) {
            return "error " + error.getClass().getSimpleName();
        }
    }

    /** write codec level baseOffset timestampType appendTime producerId epoch sequence txn leaderEpoch horizon record... */
    private static byte[] write(String[] w) {
        ByteBufferOutputStream stream = new ByteBufferOutputStream(1024);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(stream, (byte) 2, compression(w[1], w[2]),
            w[4].equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME, Long.parseLong(w[3]),
            Long.parseLong(w[5]), Long.parseLong(w[6]), Short.parseShort(w[7]), Integer.parseInt(w[8]),
            w[9].equals("1"), false, Integer.parseInt(w[10]), Integer.MAX_VALUE, Long.parseLong(w[11]));
        for (int i = 12; i < w.length; i++) {
            String[] fields = w[i].split(":", -1);
            builder.appendWithOffset(Long.parseLong(fields[0]), new SimpleRecord(Long.parseLong(fields[1]),
                bytes(fields[2]), bytes(fields[3]), headers(fields[4])));
        }
        return copy(builder.build().buffer());
    }

    private static Compression compression(String codec, String level) {
        boolean byDefault = level.equals("-");
        return switch (codec) {
            case "1" -> byDefault ? Compression.gzip().build() : Compression.gzip().level(Integer.parseInt(level)).build();
            case "2" -> Compression.snappy().build();
            case "3" -> byDefault ? Compression.lz4().build() : Compression.lz4().level(Integer.parseInt(level)).build();
            case "4" -> byDefault ? Compression.zstd().build() : Compression.zstd().level(Integer.parseInt(level)).build();
            default -> Compression.NONE;
        };
    }

    private static Header[] headers(String text) {
        if (text.isEmpty()) {
            return new Header[0];
        }
        String[] pairs = text.split(",");
        Header[] headers = new Header[pairs.length];
        for (int i = 0; i < pairs.length; i++) {
            String[] pair = pairs[i].split("=", -1);
            headers[i] = new RecordHeader(new String(HEX.parseHex(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
        }
        return headers;
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    /** marker type baseOffset timestamp leaderEpoch producerId producerEpoch coordinatorEpoch */
    private static byte[] marker(String[] w) {
        ControlRecordType type = w[1].equals("1") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        EndTransactionMarker marker = new EndTransactionMarker(type, Integer.parseInt(w[7]));
        return copy(MemoryRecords.withEndTransactionMarker(Long.parseLong(w[2]), Long.parseLong(w[3]),
            Integer.parseInt(w[4]), Long.parseLong(w[5]), Short.parseShort(w[6]), marker).buffer());
    }

    private static byte[] copy(ByteBuffer buffer) {
        byte[] all = new byte[buffer.remaining()];
        buffer.duplicate().get(all);
        return all;
    }

    private static String read(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            text.append(String.join(" ", "batch", "" + batch.baseOffset(), "" + batch.lastOffset(),
                "" + batch.nextOffset(), "" + batch.countOrNull(), "" + batch.partitionLeaderEpoch(),
                "" + batch.checksum(), "" + batch.compressionType().id, "" + batch.timestampType().id,
                "" + batch.maxTimestamp(), "" + batch.producerId(), "" + batch.producerEpoch(),
                "" + batch.baseSequence(), "" + batch.lastSequence(), batch.isTransactional() ? "1" : "0",
                batch.isControlBatch() ? "1" : "0", "" + batch.deleteHorizonMs().orElse(-1), "" + batch.sizeInBytes()));
            for (Record record : batch) {
                text.append(' ').append(record.offset()).append(':').append(record.timestamp()).append(':');
                text.append(hex(record.key())).append(':').append(hex(record.value())).append(':');
                String separator = "";
                for (Header header : record.headers()) {
                    text.append(separator).append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    text.append('=').append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                    separator = ",";
                }
                if (batch.isControlBatch()) {
                    text.append(":").append(ControlRecordType.parse(record.key()).type()).append('/');
                    text.append(EndTransactionMarker.deserialize(record).coordinatorEpoch());
                }
            }
        }
        return text.toString();
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? "-" : HEX.formatHex(copy(buffer));
    }
}
