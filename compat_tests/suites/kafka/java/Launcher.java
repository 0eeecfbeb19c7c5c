package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * The program that starts and stops the brokers, one for the whole JVM. Its command is in the system property
 * "kwire.suite.brokers", one word a line; requests and answers are lines of JSON (see brokers.py).
 */
final class Launcher {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Launcher only;
    private final OutputStream requests;
    private final BufferedReader answers;

    private Launcher() throws IOException {
        Process process = new ProcessBuilder(List.of(System.getProperty("kwire.suite.brokers").split("\n")))
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        requests = process.getOutputStream();
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    static synchronized Launcher get() {
        try {
            if (only == null)
                only = new Launcher();
            return only;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    /** Carries out one request and returns its answer. Throws RuntimeException with the words of the launcher. */
    synchronized JsonNode ask(Map<String, ?> request) {
        try {
            requests.write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
            requests.flush();
            String line = answers.readLine();
            if (line == null)
                throw new IOException("the launcher of brokers has ended");
            JsonNode answer = JSON.readTree(line);
            if (answer.has("error"))
                throw new RuntimeException(answer.get("error").asText());
            return answer;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
