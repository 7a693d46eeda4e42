package fourfold;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Short words for what most tests do. */
final class Kit {
    private static final AtomicInteger NAMES = new AtomicInteger();

    private Kit() {}

    /** A name that no other test uses. */
    static String name(String what) {
        return what + "-" + ProcessHandle.current().pid() + "-" + NAMES.incrementAndGet();
    }

    static Admin admin(String address) {
        return Admin.create(Map.of("bootstrap.servers", address));
    }

    static void create(String address, String topic, int partitions, Map<String, String> config) throws Exception {
        try (Admin admin = admin(address)) {
            NewTopic one = new NewTopic(topic, partitions, (short) 1).configs(config);
            admin.createTopics(List.of(one)).all().get(30, TimeUnit.SECONDS);
        }
    }

    static KafkaProducer<String, String> producer(String address, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address));
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String address, String group, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", address, "auto.offset.reset", "earliest",
                "enable.auto.commit", false));
        if (group != null) {
            config.put("group.id", group);
        }
        config.putAll(more);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** A member of a classic group with short session times. */
    static KafkaConsumer<String, String> member(String address, String group, Class<?> assignor, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("session.timeout.ms", 6000, "heartbeat.interval.ms", 300));
        config.put("partition.assignment.strategy", assignor.getName());
        config.putAll(more);
        return consumer(address, group, config);
    }

    /** Sends {@code values}, all to key null, and waits for every acknowledgement. */
    static List<RecordMetadata> send(KafkaProducer<String, String> by, String topic, List<String> values) throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        values.forEach(value -> records.add(new ProducerRecord<>(topic, value)));
        return sendAll(by, records);
    }

    static List<RecordMetadata> sendAll(KafkaProducer<String, String> by, List<ProducerRecord<String, String>> records)
            throws Exception {
        List<Future<RecordMetadata>> waiting = new ArrayList<>();
        records.forEach(record -> waiting.add(by.send(record)));
        List<RecordMetadata> places = new ArrayList<>();
        for (Future<RecordMetadata> one : waiting) {
            places.add(one.get(60, TimeUnit.SECONDS));
        }
        return places;
    }

    /** Polls until {@code count} records have come. */
    static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> by, int count) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        Eventually.holds(count + " records come", 60, () -> {
            by.poll(Duration.ofMillis(100)).forEach(got::add);
            return got.size() >= count;
        });
        return got;
    }

    /** Everything in the topic, by partition, without a group. */
    static List<ConsumerRecord<String, String>> readAll(String address, String topic, int partitions) {
        try (KafkaConsumer<String, String> one = consumer(address, null, Map.of())) {
            List<TopicPartition> places = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                places.add(new TopicPartition(topic, partition));
            }
            one.assign(places);
            one.seekToBeginning(places);
            long count = one.endOffsets(places).values().stream().mapToLong(Long::longValue).sum()
                    - one.beginningOffsets(places).values().stream().mapToLong(Long::longValue).sum();
            return take(one, (int) count);
        }
    }

    static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    static List<String> numbers(int from, int to) {
        List<String> all = new ArrayList<>();
        for (int n = from; n < to; n++) {
            all.add(Integer.toString(n));
        }
        return all;
    }

    /** The reason why {@code future} failed. */
    static Throwable failure(Future<?> future) throws Exception {
        try {
            future.get(60, TimeUnit.SECONDS);
            throw new AssertionError("it should have failed");
        } catch (ExecutionException why) {
            return why.getCause();
        }
    }
}
