package fourfold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What consumer groups of Kafka's own client are promised. */
class GroupTest {
    private static Broker broker;
    private final List<KafkaConsumer<String, String>> members = new ArrayList<>();

    @BeforeAll
    static void start() {
        broker = new Broker();
    }

    @AfterAll
    static void end() throws Exception {
        broker.close();
    }

    @AfterEach
    void leave() {
        members.forEach(KafkaConsumer::close);
    }

    private KafkaConsumer<String, String> join(String topic, Class<?> assignor, Map<String, Object> more) {
        var one = Kit.member(broker.kafka(), topic, assignor, more);
        one.subscribe(List.of(topic));
        members.add(one);
        return one;
    }

    private static List<Integer> share(KafkaConsumer<String, String> of) {
        return of.assignment().stream().map(TopicPartition::partition).sorted().toList();
    }

    /** Polls all members until their shares are {@code wanted}, in any order; answers the values that came meanwhile. */
    private List<String> awaitShares(List<List<Integer>> wanted) {
        List<String> got = new ArrayList<>();
        Eventually.holds("partitions are shared as " + wanted, 60, () -> {
            for (var one : members) {
                one.poll(Duration.ofMillis(50)).forEach(record -> got.add(record.value()));
            }
            List<List<Integer>> left = new ArrayList<>(wanted);
            members.forEach(one -> left.remove(share(one)));
            return left.isEmpty();
        });
        return got;
    }

    private String topic(String what, int partitions) throws Exception {
        String topic = Kit.name(what);
        Kit.create(broker.kafka(), topic, partitions, Map.of());
        return topic;
    }

    @Test
    void rangeGivesNeighboursToEach() throws Exception {
        String topic = topic("range", 10);
        for (int n = 0; n < 3; n++) {
            join(topic, RangeAssignor.class, Map.of());
        }
        awaitShares(List.of(List.of(0, 1, 2, 3), List.of(4, 5, 6), List.of(7, 8, 9)));
    }

    @Test
    void roundRobinDealsInTurn() throws Exception {
        String topic = topic("roundrobin", 10);
        for (int n = 0; n < 3; n++) {
            join(topic, RoundRobinAssignor.class, Map.of());
        }
        awaitShares(List.of(List.of(0, 3, 6, 9), List.of(1, 4, 7), List.of(2, 5, 8)));
    }

    /** Sticky, but its first deal is by ranges: so that what must stick differs from what it would deal itself. */
    public static final class RangeThenSticky extends StickyAssignor {
        @Override
        public Map<String, List<TopicPartition>> assignPartitions(
                Map<String, List<PartitionInfo>> partitions, Map<String, Subscription> members) {
            boolean first = members.values().stream().allMatch(one -> one.userData() == null || !one.userData().hasRemaining());
            boolean all = members.size() == 3;
            return first || all ? new RangeAssignor().assignPartitions(partitions, members)
                    : super.assignPartitions(partitions, members);
        }
    }

    @Test
    void stickyLeavesToTheOthersWhatTheyHaveWhenTheThirdDies() throws Exception {
        String topic = topic("sticky", 10);
        for (int n = 0; n < 3; n++) {
            join(topic, RangeThenSticky.class, Map.of("client.id", "c" + n, "group.instance.id", "c" + n));
        }
        awaitShares(List.of(List.of(0, 1, 2, 3), List.of(4, 5, 6), List.of(7, 8, 9)));
        // A static member that goes says nothing: the group misses it only after its session has run out.
        var third = members.stream().filter(one -> share(one).equals(List.of(7, 8, 9))).findFirst().orElseThrow();
        members.remove(third);
        third.close();
        awaitShares(List.of(List.of(0, 1, 2, 3, 7), List.of(4, 5, 6, 8, 9)));
    }

    @Test
    void cooperativeMembersComeAndGoAndEveryRecordIsReadOnce() throws Exception {
        String topic = topic("cooperative", 6);
        List<String> got = new ArrayList<>();
        join(topic, CooperativeStickyAssignor.class, Map.of());
        got.addAll(awaitShares(List.of(List.of(0, 1, 2, 3, 4, 5))));
        join(topic, CooperativeStickyAssignor.class, Map.of());
        join(topic, CooperativeStickyAssignor.class, Map.of());
        Eventually.holds("each has two", 60, () -> {
            members.forEach(one -> one.poll(Duration.ofMillis(50)).forEach(record -> got.add(record.value())));
            return members.stream().allMatch(one -> share(one).size() == 2);
        });
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.send(producer, topic, Kit.numbers(0, 300));
        }
        Eventually.holds("all are read", 60, () -> {
            members.forEach(one -> one.poll(Duration.ofMillis(50)).forEach(record -> got.add(record.value())));
            return got.size() >= 300;
        });
        assertEquals(new HashSet<>(Kit.numbers(0, 300)), new HashSet<>(got));
        assertEquals(300, got.size());
    }

    @Test
    void theNewerOfTwoStaticMembersTakesThePlace() throws Exception {
        String topic = topic("static", 4);
        Map<String, Object> named = Map.of("group.instance.id", "i");
        var older = join(topic, RangeAssignor.class, named);
        awaitShares(List.of(List.of(0, 1, 2, 3)));
        members.clear();
        var newer = join(topic, RangeAssignor.class, named);
        awaitShares(List.of(List.of(0, 1, 2, 3)));
        assertThrows(FencedInstanceIdException.class, () -> Eventually.holds("the older is fenced", 30, () -> {
            older.poll(Duration.ofMillis(50));
            older.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)));
            return false;
        }));
        older.close();
        newer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(2)));
        assertEquals(List.of(0, 1, 2, 3), share(newer));
    }

    @ParameterizedTest
    @CsvSource({"g, 3", "g1, 42", "my-group, 12"})
    void aGroupsOffsetsLieInItsPartitionOfTheInternalTopic(String group, int partition) throws Exception {
        String topic = topic("offsets-of-" + group, 1);
        try (var one = Kit.consumer(broker.kafka(), group, Map.of())) {
            one.assign(List.of(new TopicPartition(topic, 0)));
            one.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)));
        }
        Map<String, Object> config = Map.of("bootstrap.servers", broker.kafka());
        try (var internal = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            assertEquals(50, internal.partitionsFor("__consumer_offsets").size());
            TopicPartition place = new TopicPartition("__consumer_offsets", partition);
            internal.assign(List.of(place));
            internal.seekToBeginning(List.of(place));
            Eventually.holds("the commit is read in partition " + partition, 30, () -> {
                for (var record : internal.poll(Duration.ofMillis(100))) {
                    ByteBuffer key = ByteBuffer.wrap(record.key());
                    if (key.getShort() > 1 || record.value() == null) {
                        continue;
                    }
                    ByteBuffer value = ByteBuffer.wrap(record.value());
                    boolean ours = text(key).equals(group) && text(key).equals(topic) && key.getInt() == 0;
                    if (ours && value.getShort() >= 0 && value.getLong() == 7) {
                        return true;
                    }
                }
                return false;
            });
        }
    }

    private static String text(ByteBuffer from) {
        byte[] bytes = new byte[from.getShort()];
        from.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Test
    void committedOffsetsAreWhereAGroupGoesOn() throws Exception {
        String topic = topic("commits", 1);
        try (var producer = Kit.producer(broker.kafka(), Map.of())) {
            Kit.send(producer, topic, Kit.numbers(0, 10));
        }
        try (var one = Kit.consumer(broker.kafka(), topic, Map.of("max.poll.records", 4))) {
            one.subscribe(List.of(topic));
            assertEquals(Kit.numbers(0, 4), Kit.values(Kit.take(one, 4)));
            one.commitSync();
        }
        try (var two = Kit.consumer(broker.kafka(), topic, Map.of())) {
            two.subscribe(List.of(topic));
            assertEquals(Kit.numbers(4, 10), Kit.values(Kit.take(two, 6)));
            assertEquals(4, two.committed(Set.of(new TopicPartition(topic, 0))).get(new TopicPartition(topic, 0)).offset());
        }
    }
}
