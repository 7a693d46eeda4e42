package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What Kafka's own clients are promised of a topic in use: settings that change, records that are removed, partitions. */
class TopicConfigTest {
    private static Broker broker;
    private static Admin admin;

    @BeforeAll
    static void start() {
        broker = new Broker();
        admin = Kit.admin(broker.kafka());
    }

    @AfterAll
    static void end() throws Exception {
        admin.close();
        broker.close();
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static AlterConfigOp op(OpType type, String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), type);
    }

    private static void alter(ConfigResource resource, AlterConfigOp... ops) throws Exception {
        Collection<AlterConfigOp> all = List.of(ops);
        admin.incrementalAlterConfigs(Map.of(resource, all)).all().get(30, TimeUnit.SECONDS);
    }

    private static Throwable refused(ConfigResource resource, AlterConfigOp... ops) throws Exception {
        Collection<AlterConfigOp> all = List.of(ops);
        Throwable why = Kit.failure(admin.incrementalAlterConfigs(Map.of(resource, all)).all());
        assertFalse(why.getMessage().isBlank());
        return why;
    }

    private static ConfigEntry shown(String name, String key) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return admin.describeConfigs(List.of(topic(name)), options).all().get(30, TimeUnit.SECONDS).get(topic(name)).get(key);
    }

    @Test
    void settingsAreSetAndTakenBackOneByOne() throws Exception {
        String name = Kit.name("altered");
        Kit.create(broker.kafka(), name, 1, Map.of());
        var only = new AlterConfigsOptions().validateOnly(true);
        var set = op(OpType.SET, "max.message.bytes", "2000");
        admin.incrementalAlterConfigs(Map.of(topic(name), List.of(set)), only).all().get(30, TimeUnit.SECONDS);
        assertTrue(shown(name, "max.message.bytes").isDefault(), "only validated");
        alter(topic(name), set);
        Eventually.holds("the setting is shown", 30, () -> shown(name, "max.message.bytes").value().equals("2000"));
        var now = shown(name, "max.message.bytes");
        assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, now.source());
        assertEquals(List.of("max.message.bytes=2000", "message.max.bytes=1048588"),
                now.synonyms().stream().map(other -> other.name() + "=" + other.value()).toList());
        assertFalse(now.documentation().isBlank());
        try (var producer = Kit.producer(broker.kafka(), Map.of("max.request.size", 10_000_000))) {
            var large = new ProducerRecord<String, String>(name, "x".repeat(3000));
            assertInstanceOf(RecordTooLargeException.class, Kit.failure(producer.send(large)));
            alter(topic(name), op(OpType.DELETE, "max.message.bytes", null));
            Eventually.holds("the old limit holds again", 30, () -> {
                try {
                    producer.send(large).get(30, TimeUnit.SECONDS);
                    return true;
                } catch (ExecutionException why) {
                    return false;
                }
            });
        }
        assertTrue(shown(name, "max.message.bytes").isDefault());
    }

    @Test
    void whatCannotBeChangedIsRefusedWithItsReason() throws Exception {
        String name = Kit.name("unalterable");
        Kit.create(broker.kafka(), name, 1, Map.of());
        for (var bad : List.of(op(OpType.SET, "no.such.setting", "1"), op(OpType.SET, "retention.ms", "abc"),
                op(OpType.SET, "max.message.bytes", "-1"), op(OpType.APPEND, "retention.ms", "1"),
                op(OpType.APPEND, "cleanup.policy", "nonsense"), op(OpType.SET, "message.timestamp.type", "Never"))) {
            assertInstanceOf(InvalidConfigurationException.class, refused(topic(name), bad), bad.toString());
        }
        var twice = op(OpType.SET, "max.message.bytes", "5");
        assertInstanceOf(InvalidRequestException.class, refused(topic(name), twice, op(OpType.DELETE, "max.message.bytes", null)));
        assertInstanceOf(UnknownTopicOrPartitionException.class, refused(topic(name + "-not"), twice));
        var node = admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).iterator().next().idString();
        var broker = new ConfigResource(ConfigResource.Type.BROKER, node);
        var why = refused(broker, op(OpType.SET, "node.id", "5"));
        assertInstanceOf(InvalidRequestException.class, why);
        assertTrue(why.getMessage().contains("node.id"), why.getMessage());
        assertTrue(shown(name, "max.message.bytes").isDefault());
    }

    @Test
    void appendTimesAreTheBrokersAndFarTimesAreRefused() throws Exception {
        String name = Kit.name("times");
        Kit.create(broker.kafka(), name, 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            var place = Kit.sendAll(producer, List.of(new ProducerRecord<>(name, 0, 1000L, null, "x"))).get(0);
            assertTrue(place.timestamp() >= before, "the answer tells the broker's time");
            var read = Kit.readAll(broker.kafka(), name, 1).get(0);
            assertEquals(TimestampType.LOG_APPEND_TIME, read.timestampType());
            assertEquals(place.timestamp(), read.timestamp());
            String limited = Kit.name("limited");
            Kit.create(broker.kafka(), limited, 1, Map.of("message.timestamp.before.max.ms", "60000"));
            var old = new ProducerRecord<String, String>(limited, 0, before - 3_600_000, null, "old");
            assertInstanceOf(InvalidTimestampException.class, Kit.failure(producer.send(old)));
            var ahead = new ProducerRecord<String, String>(limited, 0, before + 7_200_000, null, "ahead");
            assertInstanceOf(InvalidTimestampException.class, Kit.failure(producer.send(ahead)));
            producer.send(new ProducerRecord<>(limited, 0, before, null, "now")).get(30, TimeUnit.SECONDS);
        }
    }

    private static long earliest(TopicPartition place) throws Exception {
        return admin.listOffsets(Map.of(place, OffsetSpec.earliest())).all().get(30, TimeUnit.SECONDS).get(place).offset();
    }

    @Test
    void recordsAreRemovedUpToAnOffset() throws Exception {
        String name = Kit.name("trimmed");
        Kit.create(broker.kafka(), name, 1, Map.of());
        var place = new TopicPartition(name, 0);
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.send(producer, name, Kit.numbers(0, 10));
        }
        var trimmed = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(place);
        assertEquals(4, trimmed.get(30, TimeUnit.SECONDS).lowWatermark());
        assertEquals(4, earliest(place));
        assertEquals(Kit.numbers(4, 10), Kit.values(Kit.readAll(broker.kafka(), name, 1)));
        var beyond = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(11)));
        assertInstanceOf(OffsetOutOfRangeException.class, Kit.failure(beyond.all()));
        var all = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(place);
        assertEquals(10, all.get(30, TimeUnit.SECONDS).lowWatermark());
        assertEquals(10, earliest(place));
    }

    @Test
    void topicsGrowAndTellTheirBytes() throws Exception {
        String name = Kit.name("grown");
        Kit.create(broker.kafka(), name, 1, Map.of());
        var same = admin.createPartitions(Map.of(name, NewPartitions.increaseTo(1)));
        assertInstanceOf(InvalidPartitionsException.class, Kit.failure(same.all()));
        var only = new CreatePartitionsOptions().validateOnly(true);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3)), only).all().get(30, TimeUnit.SECONDS);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get(30, TimeUnit.SECONDS);
        Eventually.holds("there are two", 30, () -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name)
                .partitions().size() == 2);
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.sendAll(producer, List.of(new ProducerRecord<>(name, 1, null, "x".repeat(1000))));
        }
        int node = admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).iterator().next().id();
        var dirs = admin.describeLogDirs(List.of(node)).allDescriptions().get(30, TimeUnit.SECONDS).get(node).values();
        var sizes = dirs.iterator().next().replicaInfos();
        assertEquals(0, sizes.get(new TopicPartition(name, 0)).size());
        assertTrue(sizes.get(new TopicPartition(name, 1)).size() > 1000);
    }

    @Test
    void allOfItSurvives() throws Exception {
        String name = Kit.name("survives");
        Kit.create(broker.kafka(), name, 1, Map.of());
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.send(producer, name, Kit.numbers(0, 10));
        }
        alter(topic(name), op(OpType.SET, "max.message.bytes", "3000"));
        var place = new TopicPartition(name, 0);
        admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(7))).all().get(30, TimeUnit.SECONDS);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get(30, TimeUnit.SECONDS);
        broker.kill();
        broker.start();
        Eventually.holds("the setting is there", 60, () -> shown(name, "max.message.bytes").value().equals("3000"));
        assertEquals(7, earliest(place));
        assertEquals(3, admin.describeTopics(List.of(name)).allTopicNames().get(30, TimeUnit.SECONDS).get(name)
                .partitions().size());
        assertEquals(Kit.numbers(7, 10), Kit.values(Kit.readAll(broker.kafka(), name, 3)));
    }
}
