package fourfold;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;

/**
 * A fourfold process of the test's own: started on free ports in a folder of its own, stopped, killed, and started again as it
 * was. With PEER_KAFKA=host:port or PEER_AMQP=host:port the tests run against that broker instead (to judge the tests themselves
 * on the real system); tests that kill the broker are then skipped.
 */
final class Broker implements AutoCloseable {
    private static final Pattern DOOR = Pattern.compile("\"(kafka|amqps?|http)\"\\s*:\\s*\"([^\"]*:[0-9]+)\"");

    private final String peer =
            System.getenv("PEER_KAFKA") != null ? System.getenv("PEER_KAFKA") : System.getenv("PEER_AMQP");
    private final Map<String, String> doors =
            new TreeMap<>(Map.of("kafka", "127.0.0.1:0", "amqp", "127.0.0.1:0", "http", "127.0.0.1:0"));
    private final Path home;
    private Process process;

    private final List<String> options;

    Broker() {
        this(List.of());
    }

    /** With more options, and a door for TLS if they name a certificate. */
    Broker(List<String> options) {
        this.options = options;
        if (options.contains("--tls-cert")) {
            doors.put("amqps", "127.0.0.1:0");
        }
        try {
            home = Files.createTempDirectory("fourfold-");
            start();
        } catch (IOException why) {
            throw new AssertionError(why);
        }
    }

    /** host:port for Kafka clients. */
    String kafka() {
        return peer != null ? peer : doors.get("kafka");
    }

    /** The port for AMQP clients. */
    int amqpPort() {
        String address = peer != null ? peer : doors.get("amqp");
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** The port for AMQP clients that speak TLS. */
    int amqpsPort() {
        String address = doors.get("amqps");
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** The port of RabbitMQ's management API; the peer has it at 10,000 above its AMQP port. */
    int httpPort() {
        String address = doors.get("http");
        return peer != null ? amqpPort() + 10_000 : Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** Whether it is a real RabbitMQ or Kafka. */
    boolean isPeer() {
        return peer != null;
    }

    /** Starts it, on the ports that it had before, and waits until it is ready. */
    void start() throws IOException {
        if (peer != null) {
            return;
        }
        Path ready = home.resolve("ready.json");
        Files.deleteIfExists(ready);
        List<String> command = new ArrayList<>(List.of(System.getenv("FOURFOLD_BIN"), "serve", "--data",
                home.resolve("data").toString(), "--ready-file", ready.toString()));
        doors.forEach((door, address) -> command.addAll(List.of("--" + door, address)));
        command.addAll(options);
        File log = home.resolve("log.txt").toFile();
        process = new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        Eventually.holds("fourfold is ready", 30, () -> {
            if (!process.isAlive()) {
                throw new AssertionError("fourfold ended with " + process.exitValue() + " before it was ready\n" + log());
            }
            return Files.exists(ready);
        });
        var found = DOOR.matcher(Files.readString(ready));
        while (found.find()) {
            doors.put(found.group(1), found.group(2));
        }
    }

    /** SIGKILL. */
    void kill() throws Exception {
        Assumptions.assumeTrue(peer == null, "the peer is not ours to kill");
        process.destroyForcibly().waitFor();
    }

    /** SIGTERM, and a clean end. */
    void stop() throws Exception {
        Assumptions.assumeTrue(peer == null, "the peer is not ours to stop");
        process.destroy();
        if (!process.waitFor(30, TimeUnit.SECONDS) || process.exitValue() != 0) {
            throw new AssertionError("fourfold did not end well\n" + log());
        }
    }

    private String log() throws IOException {
        List<String> lines = Files.readAllLines(home.resolve("log.txt"));
        return String.join("\n", lines.subList(Math.max(0, lines.size() - 40), lines.size()));
    }

    @Override
    public void close() throws Exception {
        if (peer != null) {
            return;
        }
        boolean died = !process.isAlive() && process.exitValue() != 0 && process.exitValue() != 137;
        String log = log();
        process.destroyForcibly().waitFor();
        try (var files = Files.walk(home)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
        if (died) {
            throw new AssertionError("fourfold died\n" + log);
        }
    }
}
