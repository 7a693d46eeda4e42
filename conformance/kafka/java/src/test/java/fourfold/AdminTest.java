package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What Kafka's own admin client is promised, and seeking by time. */
class AdminTest {
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

    private static void refused(Class<?> wanted, NewTopic topic, boolean validateOnly) throws Exception {
        var asked = admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(validateOnly));
        Throwable why = Kit.failure(asked.all());
        assertInstanceOf(wanted, why);
        assertFalse(why.getMessage().isBlank());
    }

    @Test
    void whatCannotBeIsRefusedWithItsReason() throws Exception {
        String name = Kit.name("refused");
        for (boolean validateOnly : List.of(true, false)) {
            refused(InvalidReplicationFactorException.class, new NewTopic(name, 1, (short) 3), validateOnly);
            refused(InvalidPartitionsException.class, new NewTopic(name, 0, (short) 1), validateOnly);
            refused(InvalidTopicException.class, new NewTopic("not/a name", 1, (short) 1), validateOnly);
            refused(InvalidConfigurationException.class,
                    new NewTopic(name, 1, (short) 1).configs(Map.of("retention.ms", "abc")), validateOnly);
            refused(InvalidConfigurationException.class,
                    new NewTopic(name, 1, (short) 1).configs(Map.of("no.such.setting", "1")), validateOnly);
        }
        assertFalse(admin.listTopics().names().get(30, TimeUnit.SECONDS).contains(name));
    }

    @Test
    void validatingCreatesNothing() throws Exception {
        String name = Kit.name("validated");
        Kit.create(broker.kafka(), name, 1, Map.of());
        refused(TopicExistsException.class, new NewTopic(name, 1, (short) 1), true);
        var only = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(new NewTopic(name + "-b", 3, (short) 1)), only).all().get(30, TimeUnit.SECONDS);
        assertFalse(admin.listTopics().names().get(30, TimeUnit.SECONDS).contains(name + "-b"));
    }

    @Test
    void settingsAreAnsweredOnCreationAndLater() throws Exception {
        String name = Kit.name("settings");
        var topic = new NewTopic(name, 1, (short) 1).configs(Map.of("max.message.bytes", "5000"));
        var created = admin.createTopics(List.of(topic)).config(name).get(30, TimeUnit.SECONDS);
        assertEquals("5000", created.get("max.message.bytes").value());
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        var config = admin.describeConfigs(List.of(resource)).all().get(30, TimeUnit.SECONDS).get(resource);
        assertEquals("5000", config.get("max.message.bytes").value());
        assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("max.message.bytes").source());
        assertTrue(config.get("retention.ms").isDefault());
        assertEquals("delete", config.get("cleanup.policy").value());
    }

    @Test
    void settingsNotHonouredYetAreRefusedByNameAndNeverIgnored() throws Exception {
        Assumptions.assumeTrue(System.getenv("PEER_KAFKA") == null, "the peer honours them");
        Map<String, String> later = Map.of("remote.storage.enable", "true", "compression.type", "lz4");
        for (var one : later.entrySet()) {
            var topic = new NewTopic(Kit.name("later"), 1, (short) 1).configs(Map.of(one.getKey(), one.getValue()));
            Throwable why = Kit.failure(admin.createTopics(List.of(topic)).all());
            assertInstanceOf(InvalidConfigurationException.class, why);
            assertTrue(why.getMessage().contains(one.getKey()), why.getMessage());
        }
    }

    @Test
    void theBrokersOwnSettingsAreShown() throws Exception {
        String id = admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).iterator().next().idString();
        var resource = new ConfigResource(ConfigResource.Type.BROKER, id);
        var config = admin.describeConfigs(List.of(resource)).all().get(30, TimeUnit.SECONDS).get(resource);
        for (String key : List.of("num.partitions", "default.replication.factor", "auto.create.topics.enable")) {
            assertNotNull(config.get(key), key);
        }
    }

    @Test
    void aDeletedTopicComesBackEmptyWithAnotherId() throws Exception {
        String name = Kit.name("again");
        Kit.create(broker.kafka(), name, 2, Map.of());
        var first = admin.describeTopics(List.of(name)).allTopicNames().get(30, TimeUnit.SECONDS).get(name);
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.send(producer, name, Kit.numbers(0, 10));
        }
        admin.deleteTopics(List.of(name)).all().get(30, TimeUnit.SECONDS);
        Eventually.holds("it is gone", 30, () -> !admin.listTopics().names().get().contains(name));
        assertInstanceOf(UnknownTopicOrPartitionException.class, Kit.failure(admin.deleteTopics(List.of(name)).all()));
        Kit.create(broker.kafka(), name, 1, Map.of());
        var second = admin.describeTopics(List.of(name)).allTopicNames().get(30, TimeUnit.SECONDS).get(name);
        assertEquals(1, second.partitions().size());
        assertFalse(first.topicId().equals(second.topicId()));
        var place = new TopicPartition(name, 0);
        var end = admin.listOffsets(Map.of(place, OffsetSpec.latest())).all().get(30, TimeUnit.SECONDS).get(place);
        assertEquals(0, end.offset());
    }

    @ParameterizedTest
    @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
    void seekByTimeFindsTheRecordInsideABatch(String codec) throws Exception {
        String name = Kit.name("times");
        Kit.create(broker.kafka(), name, 1, Map.of());
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int n = 0; n < 50; n++) {
            records.add(new ProducerRecord<>(name, 0, 1_700_000_001_000L + n, null, "x"));
        }
        try (var producer = Kit.producer(broker.kafka(), Map.of("compression.type", codec, "linger.ms", 1000))) {
            Kit.sendAll(producer, records);
        }
        TopicPartition place = new TopicPartition(name, 0);
        try (var consumer = Kit.consumer(broker.kafka(), null, Map.of())) {
            assertEquals(20, consumer.offsetsForTimes(Map.of(place, 1_700_000_001_020L)).get(place).offset());
            assertEquals(0, consumer.offsetsForTimes(Map.of(place, 1L)).get(place).offset());
            assertNull(consumer.offsetsForTimes(Map.of(place, 1_700_000_001_050L)).get(place));
        }
        var latest = admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).all().get(30, TimeUnit.SECONDS).get(place);
        assertEquals(49, latest.offset());
        assertEquals(1_700_000_001_049L, latest.timestamp());
    }

    @Test
    void aGroupsOffsetsAreListedOfAllTopics() throws Exception {
        String group = Kit.name("listed");
        for (String topic : List.of(group + "-a", group + "-b")) {
            Kit.create(broker.kafka(), topic, 2, Map.of());
            try (var one = Kit.consumer(broker.kafka(), group, Map.of())) {
                one.assign(List.of(new TopicPartition(topic, 1)));
                one.commitSync(Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(3, "note")));
            }
        }
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(30, TimeUnit.SECONDS);
        assertEquals(Map.of(new TopicPartition(group + "-a", 1), new OffsetAndMetadata(3, "note"),
                new TopicPartition(group + "-b", 1), new OffsetAndMetadata(3, "note")), offsets);
        var unknown = admin.listConsumerGroupOffsets(group + "-not").partitionsToOffsetAndMetadata();
        assertTrue(unknown.get(30, TimeUnit.SECONDS).isEmpty());
        var groups = admin.listGroups().all().get(30, TimeUnit.SECONDS);
        assertTrue(groups.stream().anyMatch(one -> one.groupId().equals(group)));
    }
}
