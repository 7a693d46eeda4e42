package fourfold;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What Kafka's own producer is promised. */
class ProducerTest {
    private static Broker broker;

    @BeforeAll
    static void start() {
        broker = new Broker();
    }

    @AfterAll
    static void end() throws Exception {
        broker.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
    void recordsComeBackAsSentInEachCodec(String codec) throws Exception {
        String topic = Kit.name("codec");
        Kit.create(broker.kafka(), topic, 1, Map.of());
        List<String> sent = Kit.numbers(0, 500);
        try (var producer = Kit.producer(broker.kafka(), Map.of("compression.type", codec, "linger.ms", 20))) {
            Kit.send(producer, topic, sent);
        }
        var got = Kit.readAll(broker.kafka(), topic, 1);
        assertEquals(sent, Kit.values(got));
        for (int n = 0; n < 500; n++) {
            assertEquals(n, got.get(n).offset());
        }
    }

    @Test
    void keysChooseThePartitions() throws Exception {
        String topic = Kit.name("keys");
        Kit.create(broker.kafka(), topic, 10, Map.of());
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (String key : List.of("order-1", "order-2", "abc")) {
            records.add(new ProducerRecord<>(topic, key, "x"));
        }
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            List<Integer> places = Kit.sendAll(producer, records).stream().map(RecordMetadata::partition).toList();
            assertEquals(List.of(6, 3, 7), places);
        }
    }

    @Test
    void headersTimeAndNullsComeBack() throws Exception {
        String topic = Kit.name("parts");
        Kit.create(broker.kafka(), topic, 1, Map.of());
        var record = new ProducerRecord<String, String>(topic, 0, 1_600_000_000_123L, "k", null);
        record.headers().add("a", "1".getBytes(StandardCharsets.UTF_8)).add("a", null);
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.sendAll(producer, List.of(record));
        }
        var got = Kit.readAll(broker.kafka(), topic, 1).get(0);
        assertEquals("k", got.key());
        assertNull(got.value());
        assertEquals(1_600_000_000_123L, got.timestamp());
        assertEquals(TimestampType.CREATE_TIME, got.timestampType());
        assertEquals(2, got.headers().toArray().length);
        assertArrayEquals("1".getBytes(StandardCharsets.UTF_8), got.headers().toArray()[0].value());
        assertNull(got.headers().toArray()[1].value());
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "1", "all"})
    void eachLevelOfAcksStores(String acks) throws Exception {
        String topic = Kit.name("acks");
        Kit.create(broker.kafka(), topic, 1, Map.of());
        try (var producer = Kit.producer(broker.kafka(), Map.of("acks", acks, "enable.idempotence", false))) {
            Kit.send(producer, topic, Kit.numbers(0, 10));
        }
        try (var consumer = Kit.consumer(broker.kafka(), topic, Map.of())) {
            consumer.subscribe(List.of(topic));
            assertEquals(Kit.numbers(0, 10), Kit.values(Kit.take(consumer, 10)));
        }
    }

    @Test
    void lostAnswersMakeNoSecondCopy() throws Exception {
        String topic = Kit.name("lost");
        Kit.create(broker.kafka(), topic, 1, Map.of());
        try (LossyProxy proxy = new LossyProxy(broker.kafka());
                var producer = Kit.producer(proxy.address(), Map.of("retry.backoff.ms", 20, "linger.ms", 0))) {
            Kit.send(producer, topic, Kit.numbers(0, 20));
            for (int round = 1; round <= 3; round++) {
                proxy.loseProduceAnswers(1);
                Kit.send(producer, topic, Kit.numbers(round * 20, round * 20 + 20));
            }
            assertEquals(3, proxy.lost.get());
        }
        assertEquals(Kit.numbers(0, 80), Kit.values(Kit.readAll(broker.kafka(), topic, 1)));
    }

    @Test
    void aRecordTooLargeIsRefusedAndTheNextOneTaken() throws Exception {
        String topic = Kit.name("large");
        Kit.create(broker.kafka(), topic, 1, Map.of("max.message.bytes", "10000"));
        try (KafkaProducer<String, String> producer = Kit.producer(broker.kafka(), Map.of())) {
            Throwable why = Kit.failure(producer.send(new ProducerRecord<>(topic, "x".repeat(50_000))));
            assertInstanceOf(RecordTooLargeException.class, why);
            Kit.send(producer, topic, List.of("small"));
        }
        assertEquals(List.of("small"), Kit.values(Kit.readAll(broker.kafka(), topic, 1)));
    }
}
