import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after the other in this JVM, so that a test does not pay for a JVM start
 * each time. One JSON object per line comes in ({"main", "args", "stdin"}) and one goes out ({"status", "out", "err"}).
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Thrown in place of ending the JVM. A tool that catches it and prints it prints nothing. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }

        @Override
        public void printStackTrace(PrintStream stream) {
        }

        @Override
        public String toString() {
            return "";
        }
    }

    private static volatile Integer status;
    /** What a tool wants done when its JVM ends; the console producer sends its last records there. */
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(run(JSON.readTree(line)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void exit(int code, String message) {
        if (status == null) {
            status = code;
        }
        throw new Exited();
    }

    private static ObjectNode run(JsonNode request) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realErr = System.err;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        status = null;
        List<String> arguments = new ArrayList<>();
        request.get("args").forEach(argument -> arguments.add(argument.asText()));
        try {
            Class<?> tool = Class.forName(request.get("main").asText());
            resetCounters(tool);
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Exited)) {
                status = 1;
                failure.getCause().printStackTrace(System.err);
            }
        } finally {
            runHooks();
            System.out.flush();
            System.err.flush();
            System.setErr(realErr);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("status", status == null ? 0 : status);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }

    private static void runHooks() throws InterruptedException {
        for (Runnable hook : HOOKS) {
            Thread thread = new Thread(hook, "hook");
            thread.setDaemon(true);
            thread.start();
            thread.join(10_000);
        }
        HOOKS.clear();
    }

    /** A tool that counts in a static field would go on counting in its second run. */
    private static void resetCounters(Class<?> tool) throws IllegalAccessException {
        for (Field field : tool.getDeclaredFields()) {
            if (field.getName().equals("messageCount")) {
                field.setAccessible(true);
                field.setInt(null, 0);
            }
        }
    }
}
