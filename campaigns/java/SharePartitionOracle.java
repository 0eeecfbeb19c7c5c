import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

import kafka.server.ReplicaManager;
import kafka.server.share.SharePartition;
import kafka.server.share.SharePartitionManager;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.message.WriteShareGroupStateResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.DelayedShareFetchKey;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.persister.*;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Replays operations on Kafka's SharePartition, for campaigns/share/kafka.py. A question is a line of operations; the
 * answer has the result of each and the offsets after it. Its persister, timer and clock are driven by the operations.
 */
@SuppressWarnings("unchecked")
public class SharePartitionOracle {
    static final Uuid TOPIC = new Uuid(1, 1);

    /** No delayed fetches. */
    static class NoFetches extends ReplicaManager {
        NoFetches() {
            super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                null, null, null, null);
        }

        @Override
        public void completeDelayedShareFetchRequest(DelayedShareFetchKey key) {
        }
    }

    /** No configurations of groups. */
    static class Defaults extends GroupConfigManager {
        Defaults() {
            super(null, null, null);
        }

        @Override
        public Optional<GroupConfig> groupConfig(String group) {
            return Optional.empty();
        }
    }

    static class Clock implements Time {
        long now = 0;

        public long milliseconds() {
            return now;
        }

        public long hiResClockMs() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            now += ms;
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        }
    }

    static class Tasks implements Timer {
        record Entry(TimerTaskEntry entry, long number) {
        }

        final Clock clock;
        long number = 0;
        final PriorityQueue<Entry> queue = new PriorityQueue<>(
            Comparator.<Entry>comparingLong(e -> e.entry.expirationMs).thenComparingLong(e -> e.number));

        Tasks(Clock clock) {
            this.clock = clock;
        }

        public void add(TimerTask task) {
            queue.add(new Entry(new TimerTaskEntry(task, clock.now + task.delayMs), number++));
        }

        public boolean advanceClock(long ms) {
            clock.now += ms;
            while (!queue.isEmpty() && queue.peek().entry.expirationMs <= clock.now) {
                TimerTaskEntry entry = queue.poll().entry;
                if (!entry.cancelled()) {
                    entry.timerTask.run();
                }
            }
            return true;
        }

        public int size() {
            return queue.size();
        }

        public void close() {
        }
    }

    record Pending(PartitionStateBatchData data, CompletableFuture<WriteShareGroupStateResult> future) {
    }

    static class State implements Persister {
        final ReadShareGroupStateResponseData read = new ReadShareGroupStateResponseData();
        List<Pending> writes = new ArrayList<>();

        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters request) {
            return CompletableFuture.completedFuture(ReadShareGroupStateResult.from(read));
        }

        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters request) {
            Pending pending = new Pending(
                request.groupTopicPartitionData().topicsData().get(0).partitions().get(0), new CompletableFuture<>());
            writes.add(pending);
            return pending.future;
        }

        public CompletableFuture<InitializeShareGroupStateResult> initializeState(InitializeShareGroupStateParameters r) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters request) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(ReadShareGroupStateSummaryParameters r) {
            throw new UnsupportedOperationException();
        }

        public void stop() {
        }
    }

    final Clock clock = new Clock();
    final Tasks timer = new Tasks(clock);
    final State state = new State();
    final List<List<Pending>> pending = new ArrayList<>();
    SharePartition partition;
    long gapStart = -1;

    static <T> T bare(Class<T> type) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
    }

    Object call(String name, Class<?>[] types, Object... arguments) throws Exception {
        Method method = SharePartition.class.getDeclaredMethod(name, types);
        method.setAccessible(true);
        return method.invoke(partition, arguments);
    }

    Object get(String name) throws Exception {
        return call(name, new Class<?>[0]);
    }

    /** I maxLocks maxDeliveries lockMs startOffset first-last-state-count,... */
    String initialize(String[] words) throws Exception {
        List<ReadShareGroupStateResponseData.StateBatch> batches = new ArrayList<>();
        for (String word : parts(words, 5)) {
            long[] n = numbers(word);
            batches.add(new ReadShareGroupStateResponseData.StateBatch()
                .setFirstOffset(n[0]).setLastOffset(n[1]).setDeliveryState((byte) n[2]).setDeliveryCount((short) n[3]));
        }
        state.read.setResults(List.of(new ReadShareGroupStateResponseData.ReadStateResult().setTopicId(TOPIC)
            .setPartitions(List.of(new ReadShareGroupStateResponseData.PartitionResult().setPartition(0)
                .setStateEpoch(1).setStartOffset(Long.parseLong(words[4])).setStateBatches(batches)))));
        Constructor<SharePartition> constructor = SharePartition.class.getDeclaredConstructor(String.class,
            TopicIdPartition.class, int.class, int.class, int.class, int.class, Timer.class, Time.class,
            Persister.class, ReplicaManager.class, GroupConfigManager.class,
            Class.forName("kafka.server.share.SharePartitionManager$SharePartitionListener"));
        constructor.setAccessible(true);
        partition = constructor.newInstance("group", new TopicIdPartition(TOPIC, 0, "topic"), 1,
            Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]), timer, clock, state,
            bare(NoFetches.class), bare(Defaults.class), null);
        partition.maybeInitialize().get();
        return "";
    }

    /** A member fetchOffset maxRecords batchSize limited base-last-aborted,... */
    String acquire(String[] words) throws Exception {
        List<MemoryRecords> batches = new ArrayList<>();
        List<AbortedTransaction> aborted = new ArrayList<>();
        int size = 0;
        for (String word : parts(words, 6)) {
            long[] n = numbers(word);
            SimpleRecord[] records = new SimpleRecord[(int) (n[1] - n[0] + 1)];
            for (int i = 0; i < records.length; i++) {
                records[i] = new SimpleRecord(new byte[0]);
            }
            MemoryRecords batch;
            if (n[2] == 1) {
                aborted.add(new AbortedTransaction().setProducerId(1000 + n[0]).setFirstOffset(n[0]));
                batch = MemoryRecords.withTransactionalRecords(n[0], Compression.NONE, 1000 + n[0], (short) 0, 0, 0, records);
            } else {
                batch = MemoryRecords.withRecords(n[0], Compression.NONE, records);
            }
            batches.add(batch);
            size += batch.sizeInBytes();
        }
        ByteBuffer buffer = ByteBuffer.allocate(size);
        batches.forEach(batch -> buffer.put(batch.buffer().duplicate()));
        buffer.flip();
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1L << 40, 0, MemoryRecords.readableRecords(buffer),
            Optional.empty(), OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        List<AcquiredRecords> acquired = partition.acquire(words[1],
            words[5].equals("1") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED,
            Integer.parseInt(words[4]), Integer.parseInt(words[3]), Long.parseLong(words[2]), data,
            FetchIsolation.TXN_COMMITTED).acquiredRecords();
        closeGaps();
        get("maybeUpdateCachedStateAndOffsets"); // kwire does this at once, Kafka after the next write
        StringBuilder answer = new StringBuilder();
        acquired.forEach(r -> answer.append(r.firstOffset() + "-" + r.lastOffset() + "-" + r.deliveryCount() + ","));
        return answer.toString();
    }

    /** As in kwire, gaps of the state that was read are not opened again, and none are left once all are filled. */
    void closeGaps() throws Exception {
        Field field = SharePartition.class.getDeclaredField("persisterReadResultGapWindow");
        field.setAccessible(true);
        Object window = field.get(partition);
        if (window == null) {
            return;
        }
        Field start = window.getClass().getDeclaredField("gapStartOffset");
        start.setAccessible(true);
        gapStart = Math.max(gapStart, Math.max((long) start.get(window), (long) get("startOffset")));
        start.set(window, gapStart);
        long following = gapStart;
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) get("cachedState")).values()) {
            if (batch.firstOffset() > following) {
                return;
            }
            following = Math.max(following, batch.lastOffset() + 1);
        }
        field.set(partition, null);
    }

    /** K member first-last-type.type...,... */
    CompletableFuture<Void> acknowledge(String[] words) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (String word : parts(words, 2)) {
            String[] fields = word.split("-");
            List<Byte> types = new ArrayList<>();
            for (String type : fields[2].split("\\.")) {
                types.add(Byte.parseByte(type));
            }
            batches.add(new ShareAcknowledgementBatch(Long.parseLong(fields[0]), Long.parseLong(fields[1]), types));
        }
        return partition.acknowledge(words[1], batches);
    }

    String changed(CompletableFuture<Void> future) throws Exception {
        if (future.isCompletedExceptionally()) {
            try {
                future.get();
            } catch (java.util.concurrent.ExecutionException error) {
                return error.getCause() instanceof InvalidRecordStateException ? "INVALID_RECORD_STATE"
                    : error.getCause() instanceof InvalidRequestException ? "INVALID_REQUEST" : error.getCause().toString();
            }
        }
        return writes(true);
    }

    /** The writes of one operation: adjacent batches with the same state are one. */
    String writes(boolean offsets) {
        List<Pending> started = state.writes;
        state.writes = new ArrayList<>();
        if (started.isEmpty()) {
            return "";
        }
        pending.add(started);
        List<PersisterStateBatch> batches = new ArrayList<>();
        started.forEach(write -> batches.addAll(write.data.stateBatches()));
        batches.sort(Comparator.comparingLong(PersisterStateBatch::firstOffset));
        StringBuilder answer = new StringBuilder();
        for (int i = 0; i < batches.size(); i++) {
            PersisterStateBatch first = batches.get(i), last = first;
            while (i + 1 < batches.size() && batches.get(i + 1).firstOffset() == last.lastOffset() + 1
                && batches.get(i + 1).deliveryState() == first.deliveryState()
                && batches.get(i + 1).deliveryCount() == first.deliveryCount()) {
                last = batches.get(++i);
            }
            answer.append(first.firstOffset() + "-" + last.lastOffset() + "-" + first.deliveryState() + "-"
                + first.deliveryCount() + ",");
        }
        PartitionStateBatchData data = started.get(started.size() - 1).data;
        return answer + (offsets ? "@" + data.startOffset() + "/" + data.deliveryCompleteCount() : "");
    }

    String complete(int index, boolean written) throws Exception {
        WriteShareGroupStateResult result = WriteShareGroupStateResult.from(new WriteShareGroupStateResponseData()
            .setResults(List.of(new WriteShareGroupStateResponseData.WriteStateResult().setTopicId(TOPIC)
                .setPartitions(List.of(new WriteShareGroupStateResponseData.PartitionResult().setPartition(0)
                    .setErrorCode(written ? Errors.NONE.code() : Errors.COORDINATOR_NOT_AVAILABLE.code()))))));
        pending.remove(index).forEach(write -> write.future.complete(result));
        if (!written) {
            get("maybeUpdateCachedStateAndOffsets");
        }
        return "";
    }

    String operation(String text) throws Exception {
        String[] words = text.split(" ");
        String result = switch (words[0]) {
            case "I" -> initialize(words);
            case "A" -> acquire(words);
            case "K" -> changed(acknowledge(words));
            case "R" -> changed(partition.releaseAcquiredRecords(words[1]));
            case "T" -> {
                timer.advanceClock(Long.parseLong(words[1]));
                yield writes(false);
            }
            case "C" -> complete(Integer.parseInt(words[1]), true);
            case "F" -> complete(Integer.parseInt(words[1]), false);
            case "L" -> {
                call("updateCacheAndOffsets", new Class<?>[] {long.class}, Long.parseLong(words[1]));
                yield "";
            }
            default -> throw new IllegalArgumentException(text);
        };
        closeGaps();
        return result + " " + partition.nextFetchOffset() + " " + get("startOffset") + " " + get("endOffset") + " "
            + get("deliveryCompleteCount") + " " + get("canAcquireRecords");
    }

    static String[] parts(String[] words, int index) {
        return words.length <= index ? new String[0] : words[index].split(",");
    }

    static long[] numbers(String word) {
        String[] fields = word.split("-");
        long[] found = new long[fields.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = Long.parseLong(fields[i]);
        }
        return found;
    }

    static String answer(String question) {
        SharePartitionOracle oracle = new SharePartitionOracle();
        StringBuilder answer = new StringBuilder();
        for (String operation : question.split(";")) {
            try {
                answer.append(oracle.operation(operation)).append(";");
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                return answer + "failed: " + cause + " at " + cause.getStackTrace()[0];
            }
        }
        return answer.toString();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        org.apache.logging.log4j.core.config.Configurator.setRootLevel(org.apache.logging.log4j.Level.OFF);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        List<String> questions = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isEmpty()) {
                questions.add(line);
                continue;
            }
            questions.forEach(question -> out.println(answer(question)));
            out.flush();
            questions.clear();
        }
    }
}
