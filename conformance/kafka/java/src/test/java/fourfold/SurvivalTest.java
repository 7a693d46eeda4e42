package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.jupiter.api.Test;

/** What is acknowledged or committed is there after a restart and after kill -9. */
class SurvivalTest {
    @ParameterizedTest
    @ValueSource(strings = {"stop", "kill"})
    void acknowledgedRecordsAndCommittedOffsetsSurvive(String how) throws Exception {
        try (Broker broker = new Broker()) {
            String topic = Kit.name("survives");
            Kit.create(broker.kafka(), topic, 3, Map.of("max.message.bytes", "200000"));
            TopicPartition place = new TopicPartition(topic, 0);
            try (var producer = Kit.producer(broker.kafka(), Map.of());
                    var consumer = Kit.consumer(broker.kafka(), topic, Map.of())) {
                Kit.send(producer, topic, Kit.numbers(0, 1000));
                consumer.assign(List.of(place));
                consumer.commitSync(Map.of(place, new OffsetAndMetadata(5, "five")));
                if (how.equals("stop")) {
                    broker.stop();
                } else {
                    broker.kill();
                }
                broker.start();
                // Clients that lived through it go on.
                Kit.send(producer, topic, Kit.numbers(1000, 1100));
                assertEquals(new OffsetAndMetadata(5, "five"), consumer.committed(Set.of(place)).get(place));
            }
            List<Integer> got = new ArrayList<>();
            Kit.readAll(broker.kafka(), topic, 3).forEach(record -> got.add(Integer.parseInt(record.value())));
            got.sort(null);
            assertEquals(1100, got.size());
            for (int n = 0; n < 1100; n++) {
                assertEquals(n, got.get(n));
            }
        }
    }

    @Test
    void anIdempotentProducerLivesThroughKillsWithoutLossCopyOrDisorder() throws Exception {
        try (Broker broker = new Broker()) {
            String topic = Kit.name("kills");
            Kit.create(broker.kafka(), topic, 1, Map.of());
            List<Future<RecordMetadata>> waiting = new ArrayList<>();
            try (var producer = Kit.producer(broker.kafka(), Map.of("linger.ms", 1, "reconnect.backoff.max.ms", 100))) {
                for (int round = 0; round < 3; round++) {
                    for (String value : Kit.numbers(round * 1000, round * 1000 + 1000)) {
                        waiting.add(producer.send(new ProducerRecord<>(topic, value)));
                    }
                    broker.kill();
                    broker.start();
                }
                for (int n = 0; n < waiting.size(); n++) {
                    assertEquals(n, waiting.get(n).get(120, TimeUnit.SECONDS).offset());
                }
            }
            var got = Kit.values(Kit.readAll(broker.kafka(), topic, 1));
            assertTrue(got.equals(Kit.numbers(0, 3000)), got.size() + " records, or out of order");
        }
    }
}
