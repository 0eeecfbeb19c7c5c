package kwire;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import org.scalatest.Reporter;
import org.scalatest.events.Event;
import org.scalatest.events.RunAborted;
import org.scalatest.events.SuiteAborted;
import org.scalatest.events.TestCanceled;
import org.scalatest.events.TestFailed;
import org.scalatest.events.TestIgnored;
import org.scalatest.events.TestPending;
import org.scalatest.events.TestSucceeded;
import scala.Option;

/** Writes one line for each test as it ends into the file kwire.progress: state, milliseconds, name, reason. */
public final class Progress implements Reporter {
  private final Writer out;

  public Progress() throws IOException {
    out = new OutputStreamWriter(new FileOutputStream(System.getProperty("kwire.progress")), StandardCharsets.UTF_8);
  }

  @Override
  public synchronized void apply(Event event) {
    if (event instanceof TestSucceeded) {
      line("passed", ((TestSucceeded) event).duration(), ((TestSucceeded) event).testName(), "");
    } else if (event instanceof TestFailed) {
      line("failed", ((TestFailed) event).duration(), ((TestFailed) event).testName(), ((TestFailed) event).message());
    } else if (event instanceof TestIgnored) {
      line("ignored", Option.empty(), ((TestIgnored) event).testName(), "marked as ignored by the suite");
    } else if (event instanceof TestCanceled) {
      TestCanceled canceled = (TestCanceled) event;
      line("ignored", canceled.duration(), canceled.testName(), canceled.message());
    } else if (event instanceof TestPending) {
      line("ignored", Option.empty(), ((TestPending) event).testName(), "pending");
    } else if (event instanceof SuiteAborted) {
      line("aborted", Option.empty(), ((SuiteAborted) event).suiteName(), ((SuiteAborted) event).message());
    } else if (event instanceof RunAborted) {
      line("aborted", Option.empty(), "the run", ((RunAborted) event).message());
    }
  }

  private void line(String state, Option<Object> duration, String name, String reason) {
    String first = reason == null ? "" : reason.strip().replaceAll("\\s+", " ");
    String shown = first.length() > 300 ? first.substring(0, 300) + "..." : first;
    long ms = duration.isEmpty() ? 0 : ((Number) duration.get()).longValue();
    try {
      out.write(String.join("\t", state, Long.toString(ms), name.strip().replaceAll("\\s+", " "), shown) + "\n");
      out.flush();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
