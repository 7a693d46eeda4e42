package fourfold;

import static fourfold.Kit.PERSISTENT;
import static fourfold.Kit.bytes;
import static fourfold.Kit.drain;
import static fourfold.Kit.get;
import static fourfold.Kit.name;
import static fourfold.Kit.refused;
import static fourfold.Kit.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import java.math.BigDecimal;
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

/** What RabbitMQ's own Java client is promised. */
class ClientTest {
    private static Broker broker;
    private static Connection connection;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
        connection = Kit.factory(broker).newConnection("the tests");
    }

    @AfterAll
    static void stop() throws Exception {
        connection.close();
        broker.close();
    }

    @Test
    void theServerShowsWhatItHonours() {
        Map<String, Object> shown = connection.getServerProperties();
        assertEquals("RabbitMQ", shown.get("product").toString());
        @SuppressWarnings("unchecked")
        Map<String, Object> can = (Map<String, Object>) shown.get("capabilities");
        for (String one : List.of("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                "connection.blocked", "authentication_failure_close", "per_consumer_qos", "direct_reply_to")) {
            assertEquals(true, can.get(one), one);
        }
        assertEquals(2047, connection.getChannelMax());
        assertEquals(131072, connection.getFrameMax());
    }

    @Test
    void everyTypeOfHeaderComesBackAsSent() throws Exception {
        try (Channel channel = connection.createChannel()) {
            String queue = channel.queueDeclare().getQueue();
            Map<String, Object> headers = Map.ofEntries(Map.entry("byte", (byte) -5), Map.entry("short", (short) 300),
                    Map.entry("int", 70_000), Map.entry("long", 1L << 40), Map.entry("float", 1.5f),
                    Map.entry("double", 2.5), Map.entry("bool", true), Map.entry("decimal", new BigDecimal("1.25")),
                    Map.entry("time", new Date(1_700_000_000_000L)), Map.entry("list", List.of(1, 2L)),
                    Map.entry("table", Map.of("deep", Map.of("er", 1))), Map.entry("bytes", new byte[] {-1, 0}));
            var properties = new AMQP.BasicProperties.Builder().headers(headers).contentType("t").priority(9)
                    .timestamp(new Date(1_700_000_000_000L)).type("kind").build();
            channel.basicPublish("", queue, properties, bytes("body"));
            GetResponse got = get(channel, queue);
            Map<String, Object> back = got.getProps().getHeaders();
            assertArrayEquals((byte[]) headers.get("bytes"), (byte[]) back.get("bytes"));
            headers.forEach((key, value) -> {
                if (!key.equals("bytes")) {
                    assertEquals(value, back.get(key), key);
                }
            });
            assertEquals(headers.size(), back.size());
            assertEquals(new Date(1_700_000_000_000L), got.getProps().getTimestamp());
            assertEquals(List.of("t", "kind", 9), List.of(got.getProps().getContentType(), got.getProps().getType(),
                    got.getProps().getPriority()));
        }
    }

    @Test
    void topicsHeadersBindingsBetweenExchangesAndAlternates() throws Exception {
        try (Channel channel = connection.createChannel()) {
            channel.confirmSelect();
            String topic = name("topic"), headers = name("headers"), rest = name("rest");
            channel.exchangeDeclare(rest, "fanout", true);
            channel.exchangeDeclare(topic, "topic", true, false, Map.of("alternate-exchange", rest));
            channel.exchangeDeclare(headers, "headers", true);
            String some = channel.queueDeclare().getQueue();
            String coloured = channel.queueDeclare().getQueue();
            String left = channel.queueDeclare().getQueue();
            channel.queueBind(some, topic, "a.*.c");
            channel.exchangeBind(headers, topic, "#.h");
            channel.queueBind(coloured, headers, "", Map.of("x-match", "any", "n", 7, "colour", "red"));
            channel.queueBind(left, rest, "");
            for (String key : List.of("a.b.c", "a.c", "a.b.h", "z.h", "nobody")) {
                var with = new AMQP.BasicProperties.Builder().headers(Map.of("n", key.startsWith("z") ? 8 : 7)).build();
                channel.basicPublish(topic, key, with, bytes(key));
            }
            channel.waitForConfirmsOrDie(30_000);
            assertEquals(List.of("a.b.c"), drain(channel, some));
            assertEquals(List.of("a.b.h"), drain(channel, coloured));
            assertEquals(List.of("a.c", "nobody"), drain(channel, left));
            channel.exchangeUnbind(headers, topic, "#.h");
            channel.exchangeDelete(topic, false);
            channel.exchangeDelete(topic, false);
        }
    }

    @Test
    void a06AnExclusiveQueueIsLockedToOthersAndGoesWithItsConnection() throws Exception {
        String queue = name("exclusive");
        try (Connection owner = Kit.factory(broker).newConnection()) {
            owner.createChannel().queueDeclare(queue, false, true, false, null);
            String locked = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue + "' in vhost '/'. It "
                    + "could be originally declared on another connection or the exclusive property value does not match that "
                    + "of the original declaration.";
            String cut = locked.substring(0, Math.min(255, locked.length()));
            refused(connection, 405, cut, channel -> channel.queueDeclare(queue, true, false, false, null));
            refused(owner, 405, cut, channel -> channel.queueDeclare(queue, false, false, false, null));
        }
        try (Channel channel = connection.createChannel()) {
            channel.queueDeclare(queue, true, false, true, null);
            channel.queueDelete(queue);
        }
    }

    @Test
    void a09HeadersUnsetAndHeadersEmptyStayApart() throws Exception {
        try (Channel channel = connection.createChannel()) {
            String queue = channel.queueDeclare().getQueue();
            channel.basicPublish("", queue, null, new byte[0]);
            channel.basicPublish("", queue, new AMQP.BasicProperties.Builder().headers(Map.of()).build(), new byte[0]);
            channel.basicPublish("", queue, PERSISTENT, bytes("normal"));
            assertNull(get(channel, queue).getProps().getHeaders());
            assertEquals(Map.of(), get(channel, queue).getProps().getHeaders());
            assertEquals("normal", text(get(channel, queue).getBody()));
        }
    }

    @Test
    void a11WhatNobodyTakesComesBackBeforeItsConfirm() throws Exception {
        try (Channel channel = connection.createChannel()) {
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            channel.addReturnListener((code, why, exchange, key, properties, body) -> told.add(code + " " + why + " " + text(body)));
            channel.addConfirmListener((tag, multiple) -> told.add("ack " + tag), (tag, multiple) -> told.add("nack " + tag));
            channel.confirmSelect();
            channel.basicPublish("", "nobody-has-this-name", true, null, bytes("x"));
            assertEquals("312 NO_ROUTE x", told.poll(30, TimeUnit.SECONDS));
            assertEquals("ack 1", told.poll(30, TimeUnit.SECONDS));
        }
        refused(connection, 404, "NOT_FOUND - no exchange 'nosuch' in vhost '/'",
                channel -> channel.basicPublish("nosuch", "", null, bytes("x")));
    }

    @Test
    void a12AQuestionIsAnsweredDirectly() throws Exception {
        try (Channel asking = connection.createChannel(); Channel answering = connection.createChannel()) {
            String queue = answering.queueDeclare().getQueue();
            RpcServer server = new RpcServer(answering, queue) {
                @Override
                public byte[] handleCall(byte[] question, AMQP.BasicProperties properties) {
                    return bytes("re: " + text(question));
                }
            };
            Thread worker = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (Exception why) {
                    // the channel is closed: the test is over
                }
            });
            worker.start();
            RpcClient client = new RpcClient(new RpcClientParams().channel(asking).exchange("").routingKey(queue)
                    .replyTo("amq.rabbitmq.reply-to").timeout(30_000));
            for (int n = 0; n < 20; n++) {
                assertEquals("re: " + n, client.stringCall("" + n));
            }
            server.close();
        }
    }

    @Test
    void a14ASecondAckClosesTheChannelAndGivesTheRestBack() throws Exception {
        String queue = name("acks");
        try (Channel channel = connection.createChannel()) {
            channel.queueDeclare(queue, true, false, false, null);
            channel.basicPublish("", queue, PERSISTENT, bytes("1"));
            channel.basicPublish("", queue, PERSISTENT, bytes("2"));
        }
        refused(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 1", channel -> {
            get(channel, queue);
            get(channel, queue);
            channel.basicAck(1, false);
            channel.basicAck(1, false);
        });
        try (Channel channel = connection.createChannel()) {
            GetResponse again = get(channel, queue);
            assertEquals("2", text(again.getBody()));
            assertTrue(again.getEnvelope().isRedeliver());
            channel.basicAck(0, true);
            channel.basicAck(0, true);
            channel.queueDelete(queue);
        }
    }

    @Test
    void a17AConsumerIsToldWhenItsQueueGoes() throws Exception {
        try (Channel channel = connection.createChannel(); Channel other = connection.createChannel()) {
            String queue = name("cancelled");
            channel.queueDeclare(queue, false, false, false, null);
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            channel.basicConsume(queue, true, "tag", (tag, message) -> { }, told::add);
            other.queueDelete(queue);
            assertEquals("tag", told.poll(30, TimeUnit.SECONDS));
            assertEquals(0, other.queueDelete(queue).getMessageCount());
        }
    }

    @Test
    void aTransactionIsAllOrNothing() throws Exception {
        try (Channel channel = connection.createChannel(); Channel other = connection.createChannel()) {
            String queue = channel.queueDeclare(name("tx"), true, false, false, null).getQueue();
            channel.txSelect();
            channel.basicPublish("", queue, PERSISTENT, bytes("1"));
            assertEquals(0, other.messageCount(queue));
            channel.txRollback();
            channel.basicPublish("", queue, PERSISTENT, bytes("2"));
            channel.basicPublish("", queue, PERSISTENT, bytes("3"));
            channel.txCommit();
            assertEquals(List.of("2", "3"), drain(other, queue));
            other.queueDelete(queue);
        }
        refused(connection, 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", channel -> {
            channel.txSelect();
            channel.confirmSelect();
        });
    }

    @Test
    void theLargestFrameIsWhatTheClientWants() throws Exception {
        var factory = Kit.factory(broker);
        factory.setRequestedFrameMax(4096);
        factory.setRequestedChannelMax(3);
        try (Connection small = factory.newConnection(); Channel channel = small.createChannel()) {
            assertEquals(4096, small.getFrameMax());
            String queue = channel.queueDeclare().getQueue();
            byte[] body = new byte[100_000];
            channel.basicPublish("", queue, PERSISTENT, body);
            assertArrayEquals(body, get(channel, queue).getBody());
            small.createChannel();
            small.createChannel();
            assertNull(small.createChannel(), "three are agreed");
        }
    }

    @Test
    void refusalsInRabbitmqsWords() throws Exception {
        refused(connection, 403, "ACCESS_REFUSED - operation not permitted on the default exchange",
                channel -> channel.exchangeBind("amq.direct", "", "k"));
        refused(connection, 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
                channel -> channel.exchangeDeclare("amq.mine", "direct"));
        refused(connection, 403, "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
                channel -> channel.basicPublish("amq.rabbitmq.trace", "", null, bytes("x")));
        refused(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received "
                + "'fanout' but current is 'topic'", channel -> channel.exchangeDeclare("amq.topic", "fanout", true));
        Connection own = Kit.factory(broker).newConnection();
        refused(own, 540, "NOT_IMPLEMENTED - immediate=true",
                channel -> channel.basicPublish("", "q", false, true, null, bytes("x")));
        own.abort();
    }

    @Test
    void whatIsConfirmedSurvivesAKillAndTheClientRecovers() throws Exception {
        try (Broker own = new Broker(); Connection recovering = Kit.factory(own).newConnection()) {
            Channel channel = recovering.createChannel();
            channel.confirmSelect();
            channel.exchangeDeclare("x", "topic", true);
            channel.queueDeclare("q", true, false, false, null);
            channel.queueBind("q", "x", "k.#");
            for (int n = 0; n < 200; n++) {
                channel.basicPublish("x", "k." + n, PERSISTENT, bytes("" + n));
            }
            channel.waitForConfirmsOrDie(30_000);
            own.kill();
            own.start();
            Eventually.holds("the client is there again", 60, () -> {
                try {
                    return channel.isOpen() && channel.messageCount("q") == 200;
                } catch (Exception why) {
                    return false;
                }
            });
            assertEquals(IntStream.range(0, 200).mapToObj(n -> "" + n).toList(), drain(channel, "q"));
        }
    }
}
