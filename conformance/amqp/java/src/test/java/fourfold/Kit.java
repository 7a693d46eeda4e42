package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicInteger;

/** Short words for what most tests here do. */
final class Kit {
    static final AMQP.BasicProperties PERSISTENT = new AMQP.BasicProperties.Builder().deliveryMode(2).build();
    private static final AtomicInteger NAMES = new AtomicInteger();

    private Kit() {}

    /** Something that ends with a channel or connection closed. */
    interface Act {
        void on(Channel channel) throws Exception;
    }

    static ConnectionFactory factory(Broker broker) {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(broker.amqpPort());
        factory.setNetworkRecoveryInterval(200);
        return factory;
    }

    /** A name that no other test uses. */
    static String name(String what) {
        return what + "-" + ProcessHandle.current().pid() + "-" + NAMES.incrementAndGet();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A message by basic.get, waited for. */
    static GetResponse get(Channel channel, String queue) {
        AtomicReference<GetResponse> got = new AtomicReference<>();
        Eventually.holds("a message in " + queue, 30, () -> {
            got.set(channel.basicGet(queue, false));
            return got.get() != null;
        });
        return got.get();
    }

    /** All that is in a queue now. */
    static List<String> drain(Channel channel, String queue) throws IOException {
        List<String> bodies = new ArrayList<>();
        for (GetResponse one; (one = channel.basicGet(queue, true)) != null; ) {
            bodies.add(text(one.getBody()));
        }
        return bodies;
    }

    /** {@code act} on a new channel is refused so: by closing it, or the connection. */
    static void refused(Connection connection, int code, String text, Act act) throws Exception {
        Channel channel = connection.createChannel();
        AtomicReference<ShutdownSignalException> closed = new AtomicReference<>();
        channel.addShutdownListener(closed::set);
        try {
            act.on(channel);
        } catch (IOException | ShutdownSignalException why) {
            // told by the listener
        }
        Eventually.holds("a refusal with " + code, 30, () -> closed.get() != null);
        Object reason = closed.get().getReason();
        String said = reason instanceof AMQP.Channel.Close close ? close.getReplyCode() + " " + close.getReplyText()
                : reason instanceof AMQP.Connection.Close ended ? ended.getReplyCode() + " " + ended.getReplyText() : "" + reason;
        assertEquals(code + " " + text, said);
    }

}
