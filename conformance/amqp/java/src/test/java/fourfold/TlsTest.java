package fourfold;

import static fourfold.Kit.PERSISTENT;
import static fourfold.Kit.bytes;
import static fourfold.Kit.name;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The client through TLS, with certificates on both sides that the JDK's own tool has made. */
class TlsTest {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static Path home;

    @BeforeAll
    static void issue() throws Exception {
        Assumptions.assumeTrue(System.getenv("PEER_AMQP") == null, "the peer has no certificates of ours");
        home = Files.createTempDirectory("fourfold-ca-");
        tool("-genkeypair", "ca", "-dname", "CN=authority", "-ext", "bc:c");
        for (String who : List.of("server", "alice")) {
            tool("-genkeypair", who, "-dname", "CN=" + who);
            tool("-certreq", who, "-file", who + ".csr");
            tool("-gencert", "ca", "-infile", who + ".csr", "-outfile", who + ".crt", "-rfc",
                    "-ext", "san=dns:localhost,ip:127.0.0.1");
        }
        tool("-genkeypair", "stranger", "-dname", "CN=alice");
        tool("-exportcert", "ca", "-file", "ca.pem", "-rfc");
        pem("server.key", "PRIVATE KEY", store().getKey("server", PASSWORD).getEncoded());
    }

    @AfterAll
    static void tidy() throws IOException {
        if (home != null) {
            try (var files = Files.walk(home)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    /** keytool COMMAND -alias ALIAS … on the one key store. */
    private static void tool(String command, String alias, String... more) throws Exception {
        List<String> words = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                command, "-alias", alias, "-keystore", "all.p12", "-storepass", new String(PASSWORD)));
        if (command.equals("-genkeypair")) {
            words.addAll(List.of("-keyalg", "RSA", "-keysize", "2048", "-validity", "30"));
        }
        words.addAll(List.of(more));
        Process done = new ProcessBuilder(words).directory(home.toFile()).redirectErrorStream(true).start();
        String said = Kit.text(done.getInputStream().readAllBytes());
        assertEquals(0, done.waitFor(), said);
    }

    private static void pem(String file, String what, byte[] der) throws IOException {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der);
        Files.writeString(home.resolve(file), "-----BEGIN " + what + "-----\n" + body + "\n-----END " + what + "-----\n");
    }

    private static KeyStore store() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (var from = Files.newInputStream(home.resolve("all.p12"))) {
            store.load(from, PASSWORD);
        }
        return store;
    }

    /** What a client needs that trusts the authority and shows the certificate of that name, if any. */
    private static SSLContext trust(String shows) throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("ca", store().getCertificate("ca"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        if (shows != null) {
            var factory = java.security.cert.CertificateFactory.getInstance("X.509");
            var chain = new java.security.cert.Certificate[] {store().getCertificate(shows)};
            if (Files.exists(home.resolve(shows + ".crt"))) {
                try (var from = Files.newInputStream(home.resolve(shows + ".crt"))) {
                    chain[0] = factory.generateCertificate(from);
                }
            }
            own.setKeyEntry("own", store().getKey(shows, PASSWORD), PASSWORD, chain);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static ConnectionFactory through(Broker broker, String shows) throws Exception {
        ConnectionFactory factory = Kit.factory(broker);
        factory.setHost("localhost");
        factory.setPort(broker.amqpsPort());
        factory.useSslProtocol(trust(shows));
        factory.enableHostnameVerification();
        factory.setAutomaticRecoveryEnabled(false);
        return factory;
    }

    private static void send(Connection connection, String queue, String body) throws Exception {
        Channel channel = connection.createChannel();
        channel.queueDeclare(queue, true, false, false, null);
        channel.confirmSelect();
        channel.basicPublish("", queue, PERSISTENT, bytes(body));
        channel.waitForConfirmsOrDie(30_000);
    }

    private static void put(Broker broker, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + broker.httpPort() + "/api/" + path))
                .header("Authorization", "Basic " + Base64.getEncoder().encodeToString(bytes("guest:guest")))
                .header("Content-Type", "application/json").PUT(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(2, answer.statusCode() / 100, path + ": " + answer.body());
    }

    private static Broker broker() {
        return new Broker(List.of("--tls-cert", home.resolve("server.crt").toString(), "--tls-key",
                home.resolve("server.key").toString(), "--tls-client-auth", "required", "--tls-client-ca",
                home.resolve("ca.pem").toString()));
    }

    @Test
    void bothSidesShowCertificatesAndWhatIsConfirmedSurvivesAKill() throws Exception {
        try (Broker broker = broker()) {
            String queue = name("tls");
            String large = "x".repeat(1_000_000);
            try (Connection connection = through(broker, "alice").newConnection()) {
                send(connection, queue, large);
            }
            assertThrows(IOException.class, () -> through(broker, null).newConnection(), "without a certificate");
            assertThrows(IOException.class, () -> through(broker, "stranger").newConnection(), "with one of nobody's");
            broker.kill();
            broker.start();
            try (Connection connection = through(broker, "alice").newConnection()) {
                assertEquals(large, Kit.text(Kit.get(connection.createChannel(), queue).getBody()));
            }
        }
    }

    @Test
    void aCertificateLogsInWhomItNames() throws Exception {
        try (Broker broker = broker()) {
            ConnectionFactory factory = through(broker, "alice");
            factory.setSaslConfig(DefaultSaslConfig.EXTERNAL);
            assertThrows(IOException.class, factory::newConnection, "there is no such user yet");
            put(broker, "users/CN=alice", "{\"password\":\"unused\",\"tags\":\"\"}");
            put(broker, "permissions/%2F/CN=alice", "{\"configure\":\".*\",\"write\":\".*\",\"read\":\".*\"}");
            try (Connection connection = factory.newConnection()) {
                send(connection, name("external"), "by certificate");
            }
        }
    }
}
