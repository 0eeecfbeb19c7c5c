import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.net.URI;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Answers questions about names and JAAS texts with Java's and Kafka's own classes, for campaigns/security_names.py.
 *
 * A question is a line: its kind and fields in base64, with spaces between. A line without text ends a batch, whose
 * answers are then written, a line each: fields in base64, or "!" where the classes throw. The answer of a text with
 * login modules is a line per module: name, flag and options in the order of their keys, each in base64.
 */
public class SecurityNamesOracle {
    private static byte[] file = new byte[0];
    private static Constructor<?> jaasConfig;
    private static Constructor<?> configFile;
    private static Field configuration;

    public static void main(String[] arguments) throws Exception {
        jaasConfig = Class.forName("org.apache.kafka.common.security.JaasConfig")
            .getDeclaredConstructor(String.class, String.class);
        jaasConfig.setAccessible(true);
        Class<?> spi = Class.forName("sun.security.provider.ConfigFile$Spi");
        configFile = spi.getConstructor(URI.class);
        configuration = spi.getDeclaredField("configuration");
        configuration.setAccessible(true);
        URL.setURLStreamHandlerFactory(protocol -> "question".equals(protocol) ? new Handler() : null);

        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        List<String> batch = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isEmpty()) {
                batch.add(line);
                continue;
            }
            for (String question : batch)
                out.println(answer(question.split(" ", -1)));
            out.flush();
            batch.clear();
        }
    }

    private static String answer(String[] fields) {
        try {
            switch (fields[0]) {
                case "dn":
                    return encode(new X500Principal(Base64.getDecoder().decode(fields[1])).getName());
                case "ssl":
                    return encode(SslPrincipalMapper.fromRules(decode(fields[1])).getName(decode(fields[2])));
                case "kerberos":
                    List<String> rules = new ArrayList<>();
                    for (String rule : Arrays.asList(fields).subList(3, fields.length))
                        rules.add(decode(rule));
                    return encode(KerberosShortNamer.fromUnparsedRules(decode(fields[1]), rules)
                        .shortName(KerberosName.parse(decode(fields[2]))));
                case "jaas":
                    Configuration parsed = (Configuration) jaasConfig.newInstance("context", decode(fields[1]));
                    return modules(Arrays.asList(parsed.getAppConfigurationEntry("context")));
                case "file":
                    return contexts(fields[1]);
                default:
                    throw new IllegalStateException(fields[0]);
            }
        } catch (StackOverflowError | Exception refusal) {
            return "!";
        }
    }

    @SuppressWarnings("unchecked")
    private static String contexts(String text) throws Exception {
        file = Base64.getDecoder().decode(text);
        Object spi = configFile.newInstance(URI.create("question:file"));
        Map<String, List<AppConfigurationEntry>> found =
            new TreeMap<>((Map<String, List<AppConfigurationEntry>>) withoutNull((Map<String, ?>) configuration.get(spi)));
        StringBuilder answer = new StringBuilder();
        for (Map.Entry<String, List<AppConfigurationEntry>> context : found.entrySet())
            answer.append(encode(context.getKey())).append('{').append(modules(context.getValue())).append('}');
        return answer.toString();
    }

    private static String modules(List<AppConfigurationEntry> entries) {
        StringBuilder answer = new StringBuilder();
        for (AppConfigurationEntry entry : entries) {
            String flag = entry.getControlFlag().toString().replaceAll(".* ", "").toUpperCase();
            answer.append(encode(entry.getLoginModuleName())).append(' ').append(flag);
            for (Map.Entry<String, ?> option : new TreeMap<>(withoutNull(entry.getOptions())).entrySet())
                answer.append(' ').append(encode(option.getKey())).append('=').append(encode((String) option.getValue()));
            answer.append(';');
        }
        return answer.toString();
    }

    /** Neither a context nor an option without a name can be found by anybody. */
    private static <V> Map<String, V> withoutNull(Map<String, V> map) {
        Map<String, V> named = new java.util.HashMap<>(map);
        named.remove(null);
        return named;
    }

    private static String decode(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Opens the text of the question at hand as if it were a file. */
    private static class Handler extends URLStreamHandler {
        @Override
        protected URLConnection openConnection(URL url) {
            return new URLConnection(url) {
                @Override
                public void connect() {
                }

                @Override
                public InputStream getInputStream() throws IOException {
                    return new ByteArrayInputStream(file);
                }
            };
        }
    }
}
