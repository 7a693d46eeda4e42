package fourfold;

import static fourfold.Kit.PERSISTENT;
import static fourfold.Kit.bytes;
import static fourfold.Kit.name;
import static fourfold.Kit.refused;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Base64;
import org.junit.jupiter.api.Test;

/** Virtual hosts and permissions, set by RabbitMQ's management API. */
class AccessTest {
    private static void put(Broker broker, String path, String body) throws Exception {
        String login = Base64.getEncoder().encodeToString(bytes("guest:guest"));
        HttpRequest request = HttpRequest.newBuilder(
                        URI.create("http://127.0.0.1:" + broker.httpPort() + "/api/" + path))
                .header("Authorization", "Basic " + login).header("Content-Type", "application/json")
                .PUT(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        assertTrue(answer.statusCode() < 300, path + ": " + answer.statusCode() + " " + answer.body());
    }

    private static void permit(Broker broker, String at, String configure, String write, String read) throws Exception {
        put(broker, "permissions/" + at + "/" + at,
                "{\"configure\":\"" + configure + "\",\"write\":\"" + write + "\",\"read\":\"" + read + "\"}");
    }

    private static Connection enter(Broker broker, String at) throws Exception {
        var factory = Kit.factory(broker);
        factory.setUsername(at);
        factory.setPassword("secret");
        factory.setVirtualHost(at);
        factory.setAutomaticRecoveryEnabled(false);
        return factory.newConnection();
    }

    @Test
    void aUserHasWhatIsGrantedInItsVirtualHostAndNothingElseThroughAKill() throws Exception {
        try (Broker broker = new Broker()) {
            String at = name("access");
            put(broker, "users/" + at, "{\"password\":\"secret\",\"tags\":\"\"}");
            put(broker, "vhosts/" + at, "{}");
            Throwable why = assertThrows(IOException.class, () -> enter(broker, at));
            assertTrue(why.getCause().getMessage().contains(
                    "NOT_ALLOWED - access to vhost '" + at + "' refused for user '" + at + "'"), () -> "" + why.getCause());
            permit(broker, at, "^mine-", "^(mine-|amq.default$)", "^mine-");
            try (Connection connection = enter(broker, at)) {
                Channel channel = connection.createChannel();
                channel.queueDeclare("mine-q", true, false, false, null);
                channel.confirmSelect();
                channel.basicPublish("", "mine-q", PERSISTENT, bytes("kept"));
                channel.waitForConfirmsOrDie(30_000);
                String text = "ACCESS_REFUSED - access to queue 'other' in vhost '" + at + "' refused for user '" + at + "'";
                refused(connection, 403, text, one -> one.queueDeclare("other", true, false, false, null));
                refused(connection, 403, text, one -> one.basicGet("other", true));
                refused(connection, 403, text.replace("queue 'other'", "exchange 'amq.topic'"),
                        one -> one.basicPublish("amq.topic", "k", null, bytes("x")));
            }
            broker.kill();
            broker.start();
            try (Connection connection = enter(broker, at)) {
                assertEquals("kept", Kit.text(Kit.get(connection.createChannel(), "mine-q").getBody()));
                refused(connection, 403,
                        "ACCESS_REFUSED - access to queue 'other' in vhost '" + at + "' refused for user '" + at + "'",
                        one -> one.queueDeclare("other", true, false, false, null));
            }
        }
    }
}
