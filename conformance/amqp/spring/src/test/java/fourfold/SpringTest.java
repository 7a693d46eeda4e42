package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.amqp.AmqpConnectException;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.ExchangeBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.rabbit.AsyncRabbitTemplate;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** What Spring AMQP, the way in of most Java applications, is promised. */
class SpringTest {
    private static Broker broker;
    private static App app;
    private static RabbitTemplate template;

    @BeforeAll
    static void start() {
        // Spring leaves it to the thread's end to tell that a channel could not be opened while the broker was away.
        Thread.setDefaultUncaughtExceptionHandler((thread, why) -> {
            if (!(why instanceof AmqpConnectException)) {
                why.printStackTrace();
            }
        });
        broker = new Broker();
        app = new App(broker);
        template = app.template();
    }

    @AfterAll
    static void stop() throws Exception {
        app.close();
        broker.close();
    }

    private static SimpleMessageListenerContainer container(String queue, MessageListener listener, Map<String, Object> arguments) {
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(app.connections());
        container.setQueueNames(queue);
        container.setPrefetchCount(10);
        container.setMessageListener(listener);
        container.setConsumerArguments(arguments);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static CorrelationData.Confirm send(String exchange, String key, String body, CorrelationData id) throws Exception {
        template.convertAndSend(exchange, key, body, id);
        return id.getFuture().get(30, TimeUnit.SECONDS);
    }

    private static String text(Message message) {
        return new String(message.getBody());
    }

    @Test
    void theAdminDeclaresWhatTheApplicationHasAndSeesIt() throws Exception {
        for (String queue : List.of("jobs", "failed", "questions")) {
            assertNotNull(app.admin().getQueueInfo(queue), queue);
        }
        assertNull(app.admin().getQueueInfo("nobody-declared-this"));
        String other = app.admin().declareQueue(QueueBuilder.durable("admins").maxLength(10L).build());
        for (int n = 0; n < 12; n++) {
            assertTrue(send("", other, "" + n, new CorrelationData()).isAck());
        }
        assertEquals(10, app.admin().getQueueInfo(other).getMessageCount());
        Exception why = assertThrows(AmqpException.class, () -> app.admin().declareQueue(new Queue(other)));
        String said = "" + why.getCause().getCause();
        assertTrue(said.contains("inequivalent arg 'x-max-length' for queue 'admins' in vhost '/'"), said);
        assertEquals(10, app.admin().purgeQueue(other));
        assertTrue(app.admin().deleteQueue(other));
        assertNull(app.admin().getQueueInfo(other));
    }

    @Test
    void eachPublishIsConfirmedAndWhatNobodyGetsIsReturnedFirst() throws Exception {
        List<CorrelationData> all = new ArrayList<>();
        for (int n = 0; n < 200; n++) {
            CorrelationData id = new CorrelationData("" + n);
            template.convertAndSend("work", n % 2 == 0 ? "job.x" : "nothing.here", "confirmed-" + n, id);
            all.add(id);
        }
        for (int n = 0; n < 200; n++) {
            assertTrue(all.get(n).getFuture().get(30, TimeUnit.SECONDS).isAck());
            var returned = all.get(n).getReturned();
            if (n % 2 == 0) {
                assertNull(returned);
            } else {
                assertEquals(List.of(312, "NO_ROUTE", "nothing.here", "confirmed-" + n), List.of(returned.getReplyCode(),
                        returned.getReplyText(), returned.getRoutingKey(), text(returned.getMessage())));
            }
        }
        CorrelationData.Confirm refused = send("no-such-exchange", "k", "x", new CorrelationData());
        assertFalse(refused.isAck());
        assertTrue(refused.getReason().contains("NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'"), refused.getReason());
        Eventually.holds("the jobs are done", 30, () -> app.listeners().done.containsAll(
                IntStream.range(0, 100).mapToObj(n -> "confirmed-" + 2 * n).toList()));
    }

    @Test
    void aListenersFailuresAreTriedAgainAndThenDeadLettered() throws Exception {
        for (String job : List.of("good-1", "bad-1", "good-2", "bad-2")) {
            assertTrue(send("work", "job.retry", job, new CorrelationData()).isAck());
        }
        List<String> dead = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            Message failed = template.receive("failed", 30_000);
            assertNotNull(failed, () -> "only " + dead);
            dead.add(text(failed));
            Map<String, ?> death = failed.getMessageProperties().getXDeathHeader().get(0);
            assertEquals(List.of("jobs", "rejected", 1L, "work", List.of("job.retry")), List.of(death.get("queue"),
                    death.get("reason"), death.get("count"), death.get("exchange"), death.get("routing-keys")));
        }
        assertEquals(List.of("bad-1", "bad-2"), dead.stream().sorted().toList());
        Eventually.holds("the good ones are done", 30, () -> app.listeners().done.containsAll(List.of("good-1", "good-2")));
        assertEquals(3, app.listeners().attempts.get("bad-1").get());
        assertEquals(1, app.listeners().attempts.get("good-1").get());
    }

    @Test
    void aFailureIsRequeuedAndARejectionIsNot() throws Exception {
        app.admin().declareQueue(QueueBuilder.durable("picky").deadLetterExchange("").deadLetterRoutingKey("picky-dead").build());
        app.admin().declareQueue(new Queue("picky-dead"));
        BlockingQueue<Boolean> redelivered = new LinkedBlockingQueue<>();
        var container = container("picky", message -> {
            boolean again = message.getMessageProperties().isRedelivered();
            redelivered.add(again);
            throw again ? new AmqpRejectAndDontRequeueException("enough") : new IllegalStateException("once more");
        }, Map.of());
        template.convertAndSend("picky", "m");
        assertEquals("m", text(template.receive("picky-dead", 30_000)));
        assertEquals(List.of(false, true), List.copyOf(redelivered));
        container.stop();
        assertEquals(0, app.admin().getQueueInfo("picky").getMessageCount());
    }

    @Test
    void questionsOfManyThreadsAreAnsweredDirectly() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        var answers = pool.invokeAll(IntStream.range(0, 200).<Callable<Object>>mapToObj(
                n -> () -> template.convertSendAndReceive("questions", "" + n)).toList());
        pool.shutdown();
        for (int n = 0; n < 200; n++) {
            assertEquals("re: " + n, answers.get(n).get());
        }
        RabbitTemplate single = new RabbitTemplate(app.connections());
        single.setUseDirectReplyToContainer(false);
        single.setReplyTimeout(30_000);
        assertEquals("re: alone", single.convertSendAndReceive("questions", "alone"));
        AsyncRabbitTemplate async = new AsyncRabbitTemplate(template);
        async.start();
        assertEquals("re: later", async.convertSendAndReceive("questions", "later").get(30, TimeUnit.SECONDS));
        async.stop();
    }

    @Test
    void aDelayedExchangeDeliversWhenItIsTime() throws Exception {
        assumeFalse(broker.isPeer(), "a peer has this by a plugin");
        var delayed = ExchangeBuilder.topicExchange("later").delayed().build();
        Queue queue = new Queue("due");
        app.admin().declareExchange(delayed);
        app.admin().declareQueue(queue);
        app.admin().declareBinding(BindingBuilder.bind(queue).to(delayed).with("due.*").noargs());
        long start = System.nanoTime();
        for (long delay : new long[] {1500, 700, 0}) {
            template.convertAndSend("later", "due.x", "" + delay, message -> {
                message.getMessageProperties().setDelayLong(delay);
                return message;
            });
        }
        for (long delay : new long[] {0, 700, 1500}) {
            assertEquals("" + delay, text(template.receive("due", 30_000)));
            assertTrue(System.nanoTime() - start >= delay * 1_000_000, delay + " is early");
        }
    }

    @Test
    void aContainerReadsAStreamFromWhereItAsksTo() throws Exception {
        app.admin().declareQueue(QueueBuilder.durable("events").stream().build());
        for (int n = 0; n < 50; n++) {
            assertTrue(send("", "events", "" + n, new CorrelationData()).isAck());
        }
        for (int from : new int[] {0, 30}) {
            BlockingQueue<Long> offsets = new LinkedBlockingQueue<>();
            var container = container("events", message -> offsets.add(message.getMessageProperties().getHeader("x-stream-offset")),
                    Map.of("x-stream-offset", from == 0 ? "first" : (Object) from));
            for (long n = from; n < 50; n++) {
                assertEquals(n, offsets.poll(30, TimeUnit.SECONDS));
            }
            container.stop();
        }
        // RabbitMQ counts the messages of a stream only now and then.
        Eventually.holds("all 50 are there", 60, () -> app.admin().getQueueInfo("events").getMessageCount() == 50);
    }

    @Test
    void aTransactionIsAllOrNothing() {
        app.admin().declareQueue(new Queue("tx"));
        // Transactions and confirms do not go together: connections of its own.
        var connections = new CachingConnectionFactory("127.0.0.1", broker.amqpPort());
        RabbitTemplate transacted = new RabbitTemplate(connections);
        transacted.setChannelTransacted(true);
        TransactionTemplate within = new TransactionTemplate(new RabbitTransactionManager(connections));
        within.executeWithoutResult(status -> {
            transacted.convertAndSend("tx", "gone");
            status.setRollbackOnly();
        });
        within.executeWithoutResult(status -> {
            transacted.convertAndSend("tx", "1");
            transacted.convertAndSend("tx", "2");
        });
        within.executeWithoutResult(status -> {
            assertEquals("1", transacted.receiveAndConvert("tx"));
            status.setRollbackOnly();
        });
        assertEquals(List.of("1", "2"), List.of(template.receiveAndConvert("tx", 30_000), template.receiveAndConvert("tx", 30_000)));
        assertNull(template.receiveAndConvert("tx"));
        connections.destroy();
    }

    @ParameterizedTest
    @ValueSource(strings = {"stop", "kill"})
    void nothingConfirmedIsLostAndTheApplicationGoesOn(String end) throws Exception {
        try (Broker own = new Broker(); App living = new App(own); Publisher publisher = new Publisher(living.template())) {
            // Beside the jobs, which are done at once: all that comes through, and nobody takes it until the end.
            assertEquals("ledger", living.admin().declareQueue(new Queue("ledger")));
            living.admin().declareBinding(new Binding("ledger", Binding.DestinationType.QUEUE, "work", "job.live", null));
            publisher.start();
            Eventually.holds("the publisher is under way", 60, () -> publisher.confirmed.size() >= 300);
            if (end.equals("kill")) {
                own.kill();
            } else {
                own.stop();
            }
            own.start();
            int before = publisher.confirmed.size();
            Eventually.holds("the publisher goes on", 60, () -> publisher.confirmed.size() >= before + 300);
            publisher.close();
            Eventually.holds("all that was confirmed is done", 60,
                    () -> living.listeners().done.containsAll(publisher.confirmed));
            Set<String> kept = new HashSet<>();
            for (Object one; (one = living.template().receiveAndConvert("ledger")) != null; ) {
                kept.add((String) one);
            }
            assertTrue(kept.containsAll(publisher.confirmed), () -> publisher.confirmed.size() + " confirmed, kept " + kept);
            // What went with its connection is declared anew by the application.
            Eventually.holds("the listener with a queue of its own is there again", 60, () -> {
                living.template().convertAndSend("news", "", "again");
                return living.listeners().news.contains("again");
            });
            assertEquals("re: still there", living.template().convertSendAndReceive("questions", "still there"));
            Eventually.holds("nothing is left", 30, () -> living.admin().getQueueInfo("jobs").getMessageCount() == 0);
        }
    }
}
