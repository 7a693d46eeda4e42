package fourfold;

import static fourfold.Kit.PERSISTENT;
import static fourfold.Kit.bytes;
import static fourfold.Kit.name;
import static fourfold.Kit.refused;
import static fourfold.Kit.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import java.io.IOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Streams: each reader at its own place, nothing is taken away. */
class StreamTest {
    private static Broker broker;
    private static Connection connection;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
        connection = Kit.factory(broker).newConnection();
    }

    @AfterAll
    static void stop() throws Exception {
        connection.close();
        broker.close();
    }

    private static void declare(Channel channel, String stream) throws IOException {
        channel.queueDeclare(stream, true, false, false, Map.of("x-queue-type", "stream"));
    }

    /** A new stream with the bodies "0", "1", ... in it. */
    private static String filled(Channel channel, int count) throws Exception {
        String stream = name("stream");
        declare(channel, stream);
        put(channel, stream, 0, count);
        return stream;
    }

    private static void put(Channel channel, String stream, int from, int to) throws Exception {
        channel.confirmSelect();
        for (int n = from; n < to; n++) {
            channel.basicPublish("", stream, PERSISTENT, bytes("" + n));
        }
        channel.waitForConfirmsOrDie(30_000);
    }

    /** A consumer on a channel of its own, which acknowledges what it takes. */
    private record Reader(Channel channel, BlockingQueue<Delivery> inbox) {
        static Reader at(Connection connection, String stream, Object offset) throws Exception {
            Reader reader = new Reader(connection.createChannel(), new LinkedBlockingQueue<>());
            reader.channel.basicQos(10);
            Map<String, Object> place = offset == null ? Map.of() : Map.of("x-stream-offset", offset);
            reader.channel.basicConsume(stream, false, place, (tag, one) -> reader.inbox.add(one), tag -> { });
            return reader;
        }

        /** Takes what must be the messages {@code from} to {@code to}, each with its offset in the header. */
        void takes(int from, int to) throws Exception {
            for (int n = from; n < to; n++) {
                Delivery one = inbox.poll(30, TimeUnit.SECONDS);
                assertTrue(one != null, "no delivery of " + n);
                assertEquals("" + n, text(one.getBody()));
                assertEquals((long) n, one.getProperties().getHeaders().get("x-stream-offset"));
                assertFalse(one.getEnvelope().isRedeliver());
                channel.basicAck(one.getEnvelope().getDeliveryTag(), false);
            }
        }
    }

    @Test
    void aReaderBeginsWhereItAsksTo() throws Exception {
        try (Channel channel = connection.createChannel()) {
            String stream = filled(channel, 50);
            Date before = Date.from(Instant.now().minusSeconds(3600));
            for (Object first : List.of("first", 0, 0L, before, "1h")) {
                Reader.at(connection, stream, first).takes(0, 50);
            }
            Reader.at(connection, stream, 20).takes(20, 50);
            Reader.at(connection, stream, 49L).takes(49, 50);
            List<Reader> behind = new ArrayList<>();
            for (Object next : List.of("next", 50, Date.from(Instant.now().plusSeconds(3600)))) {
                behind.add(Reader.at(connection, stream, next));
            }
            behind.add(Reader.at(connection, stream, null));
            Reader last = Reader.at(connection, stream, "last");
            put(channel, stream, 50, 60);
            for (Reader reader : behind) {
                reader.takes(50, 60);
            }
            // The last chunk: what was published together may come together, so only where it ends is sure.
            Delivery first = last.inbox.poll(30, TimeUnit.SECONDS);
            long from = (Long) first.getProperties().getHeaders().get("x-stream-offset");
            assertTrue(from < 50 && text(first.getBody()).equals("" + from), () -> "begins at " + from);
            last.channel.basicAck(first.getEnvelope().getDeliveryTag(), false);
            last.takes((int) from + 1, 60);
            channel.queueDelete(stream);
        }
    }

    @Test
    void twoReadersHaveTheirOwnPlacesAndAcknowledgementsRemoveNothing() throws Exception {
        try (Channel channel = connection.createChannel(); Connection other = Kit.factory(broker).newConnection()) {
            String stream = filled(channel, 100);
            Reader slow = Reader.at(connection, stream, "first");
            slow.takes(0, 5);
            Reader.at(other, stream, "first").takes(0, 100);
            slow.takes(5, 100);
            Reader.at(other, stream, 60).takes(60, 100);
            // RabbitMQ counts the messages of a stream only now and then.
            Eventually.holds("all 100 are there", 60, () -> channel.messageCount(stream) == 100);
            channel.queueDelete(stream);
        }
    }

    @Test
    void creditIsWhatThePrefetchSays() throws Exception {
        assumeFalse(broker.isPeer(), "RabbitMQ 3.10.8 sends more than the prefetch here");
        try (Channel channel = connection.createChannel(); Channel reading = connection.createChannel()) {
            String stream = filled(channel, 30);
            BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
            reading.basicQos(3);
            reading.basicConsume(stream, false, Map.of("x-stream-offset", "first"), (tag, one) -> inbox.add(one), tag -> { });
            for (int round = 0; round < 10; round++) {
                Delivery last = null;
                for (int n = 0; n < 3; n++) {
                    last = inbox.poll(30, TimeUnit.SECONDS);
                    assertEquals("" + (3 * round + n), text(last.getBody()));
                }
                // An answer behind all deliveries that the broker had to send: none is on its way.
                reading.messageCount(stream);
                assertTrue(inbox.isEmpty(), "more than the prefetch");
                reading.basicAck(last.getEnvelope().getDeliveryTag(), true);
            }
            channel.queueDelete(stream);
        }
    }

    @Test
    void whatStreamsDoNotDoIsRefusedInRabbitmqsWords() throws Exception {
        try (Channel channel = connection.createChannel()) {
            String stream = filled(channel, 1), it = "queue '" + stream + "' in vhost '/'";
            refused(connection, 406, "PRECONDITION_FAILED - consumer prefetch count is not set for '" + it + "'",
                    one -> one.basicConsume(stream, false, (tag, message) -> { }, tag -> { }));
            for (var refusal : Map.<String, Kit.Act>of(
                    "basic.get", one -> one.basicGet(stream, false),
                    "queue.purge", one -> one.queuePurge(stream),
                    "automatic acknowledgement", one -> {
                        one.basicQos(1);
                        one.basicConsume(stream, true, (tag, message) -> { }, tag -> { });
                    }).entrySet()) {
                // 540 ends the connection.
                Connection own = Kit.factory(broker).newConnection();
                refused(own, 540, "NOT_IMPLEMENTED - " + refusal.getKey() + " not supported by stream queues " + it,
                        refusal.getValue());
                own.abort();
            }
            channel.queueDelete(stream);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"stop", "kill"})
    void aStreamAndItsOffsetsSurvive(String end) throws Exception {
        try (Broker own = new Broker()) {
            String stream;
            try (Connection before = Kit.factory(own).newConnection(); Channel channel = before.createChannel()) {
                stream = filled(channel, 300);
            }
            if (end.equals("kill")) {
                own.kill();
            } else {
                own.stop();
            }
            own.start();
            try (Connection after = Kit.factory(own).newConnection(); Channel channel = after.createChannel()) {
                declare(channel, stream);
                assertEquals(300, channel.messageCount(stream));
                Reader all = Reader.at(after, stream, "first");
                all.takes(0, 300);
                put(channel, stream, 300, 310);
                all.takes(300, 310);
                Reader.at(after, stream, 150).takes(150, 310);
            }
        }
    }

    @Test
    void aReaderGoesOnThroughAKillByTheClientsOwnRecovery() throws Exception {
        try (Broker own = new Broker(); Connection recovering = Kit.factory(own).newConnection()) {
            Channel channel = recovering.createChannel();
            String stream = filled(channel, 200);
            List<String> seen = new ArrayList<>();
            Reader reader = Reader.at(recovering, stream, "first");
            reader.takes(0, 100);
            own.kill();
            own.start();
            Eventually.holds("the client is there again", 60, () -> {
                try {
                    return channel.isOpen() && channel.messageCount(stream) == 200;
                } catch (Exception why) {
                    return false;
                }
            });
            // The client asks again for what it asked for at first: all of it, behind what it had still in hand.
            while (seen.size() < 200 || !seen.subList(seen.size() - 200, seen.size()).equals(numbers(200))) {
                Delivery one = reader.inbox.poll(30, TimeUnit.SECONDS);
                assertTrue(one != null, () -> "only " + seen);
                seen.add(text(one.getBody()));
                reader.channel.basicAck(one.getEnvelope().getDeliveryTag(), false);
            }
        }
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(n -> "" + n).toList();
    }
}
