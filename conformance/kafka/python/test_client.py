"""What kafka-python is promised."""

import threading

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from fourfold import eventually
from kit import admin, consumer, create, producer, read_all, send, take
from proxy import LossyProxy

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_messages_come_back_as_sent_in_each_codec(broker, name, codec):
    create(broker, name)
    sent = [(f"key-{n}".encode(), f"value {n} ".encode() * 50) for n in range(100)]
    by = producer(broker, compression_type=codec, linger_ms=50)
    send(by, name, sent)
    by.close()
    got = read_all(broker, name)[0]
    assert [(m.key, m.value) for m in got] == sent
    assert [m.offset for m in got] == list(range(100))


def test_keys_choose_the_partitions_that_java_would_choose(broker, name):
    create(broker, name, 10)
    by = producer(broker)
    places = send(by, name, [(key, b"x") for key in [b"order-1", b"order-2", b"abc"]])
    by.close()
    assert [place.partition for place in places] == [6, 3, 7]


def test_headers_time_and_null_values_come_back(broker, name):
    create(broker, name)
    by = producer(broker)
    by.send(name, value=None, key=b"k", headers=[("a", b"1"), ("a", b"2")], timestamp_ms=1_600_000_000_123).get(30)
    by.close()
    one = read_all(broker, name)[0][0]
    assert (one.key, one.value, one.timestamp) == (b"k", None, 1_600_000_000_123)
    assert list(one.headers) == [("a", b"1"), ("a", b"2")]


def test_lost_answers_make_no_second_copy_for_an_idempotent_producer(broker, name):
    create(broker, name)
    proxy = LossyProxy(broker.kafka_port)
    try:
        by = producer(broker, bootstrap_servers=proxy.address, enable_idempotence=True)
        send(by, name, [(None, b"warm")])
        for round_ in range(3):
            proxy.lose_produce_answers(1)
            send(by, name, [(None, f"{round_}-{n}".encode()) for n in range(20)])
        by.close()
        assert proxy.lost == 3
    finally:
        proxy.close()
    got = [m.value for m in read_all(broker, name)[0]]
    assert got == [b"warm"] + [f"{r}-{n}".encode() for r in range(3) for n in range(20)]


class Members:
    """Consumers of one group, each polled by a thread of its own as kafka-python wants it."""

    def __init__(self, broker, topic, group, **config):
        self.broker, self.topic, self.group, self.config = broker, topic, group, config
        self.all = []
        self.got = []

    def add(self):
        one = consumer(self.broker, self.topic, group=self.group, **self.config)
        going = threading.Event()
        going.set()
        thread = threading.Thread(target=self._poll, args=(one, going), daemon=True)
        thread.start()
        self.all.append((one, going, thread))

    def _poll(self, one, going):
        while going.is_set():
            for messages in one.poll(timeout_ms=100).values():
                self.got += messages
        one.close()

    def remove(self):
        _, going, thread = self.all.pop()
        going.clear()
        thread.join(30)

    def shares(self):
        return sorted(sorted(p.partition for p in one.assignment()) for one, _, _ in self.all)

    def await_shares(self, wanted):
        eventually(f"the partitions are shared as {wanted}", lambda: self.shares() == wanted, 60)

    def close(self):
        while self.all:
            self.remove()


def test_a_group_grows_and_shrinks_and_every_message_is_read(broker, name):
    create(broker, name, 10)
    members = Members(broker, name, name)
    try:
        members.add()
        members.await_shares([list(range(10))])
        members.add()
        members.add()
        members.await_shares([[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]])
        by = producer(broker)
        send(by, name, [(f"{n}".encode(), f"{n}".encode()) for n in range(200)])
        by.close()
        eventually("all are read", lambda: len(members.got) >= 200)
        assert sorted(int(m.value) for m in members.got) == list(range(200))
        members.remove()
        members.await_shares([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    finally:
        members.close()


def test_committed_offsets_are_where_a_group_goes_on(broker, name):
    create(broker, name)
    by = producer(broker)
    send(by, name, [(None, f"{n}".encode()) for n in range(10)])
    by.close()
    one = consumer(broker, name, group=name)
    take(one, 10)
    one.commit({TopicPartition(name, 0): OffsetAndMetadata(4, "four", -1)})
    assert one.committed(TopicPartition(name, 0)) == 4
    one.close()
    two = consumer(broker, name, group=name)
    assert [m.value for m in take(two, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    two.close()


@pytest.mark.parametrize("codec", CODECS)
def test_seek_by_time_finds_the_message_inside_a_batch(broker, name, codec):
    create(broker, name)
    by = producer(broker, compression_type=codec, linger_ms=1000, batch_size=100_000)
    waiting = [by.send(name, value=b"x" * 20, timestamp_ms=1_700_000_000_000 + n) for n in range(50)]
    by.flush(60)
    assert [w.get(60).offset for w in waiting] == list(range(50))
    by.close()
    one = consumer(broker)
    place = TopicPartition(name, 0)
    for at, wanted in {1_700_000_000_020: 20, 1: 0}.items():
        assert one.offsets_for_times({place: at})[place].offset == wanted
    assert one.offsets_for_times({place: 1_700_000_000_050})[place] is None
    one.close()


def test_the_offsets_of_a_group_are_listed(broker, name):
    topics = [name + "-a", name + "-b"]
    by = admin(broker)
    for topic in topics:
        create(broker, topic, 2)
        one = consumer(broker, group=name)
        one.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        one.commit({TopicPartition(topic, 1): OffsetAndMetadata(0, "", -1)})
        one.close()
    offsets = by.list_group_offsets(name)
    offsets = offsets.get(name, offsets)
    assert {(p.topic, p.partition, o.offset) for p, o in offsets.items()} == {(topic, 1, 0) for topic in topics}
    assert name in str(by.list_groups())
    unknown = by.list_group_offsets(name + "-unknown")
    assert not unknown.get(name + "-unknown", {})
    by.close()


def test_creating_only_to_validate_creates_nothing(broker, name):
    create(broker, name + "-there")
    with pytest.raises(KafkaError) as refused:
        create(broker, name + "-there", validate_only=True)
    assert type(refused.value).__name__ == "TopicAlreadyExistsError"
    create(broker, name, validate_only=True)
    by = admin(broker)
    assert name not in by.list_topics()
    by.close()
    for config in [{"retention.ms": "abc"}, {"no.such.setting": "1"}]:
        with pytest.raises(KafkaError) as refused:
            create(broker, name, config=config, validate_only=True)
        assert type(refused.value).__name__ == "InvalidConfigurationError"


@pytest.mark.parametrize("partitions, replicas, wanted", [
    (1, 3, "InvalidReplicationFactorError"),
    (0, 1, "InvalidPartitionsError"),
])
def test_a_topic_that_cannot_be_is_refused_with_its_reason(broker, name, partitions, replicas, wanted):
    with pytest.raises(KafkaError) as refused:
        create(broker, name, partitions, replicas=replicas)
    assert type(refused.value).__name__ == wanted


def test_a_topic_name_that_cannot_be_is_refused(broker):
    with pytest.raises(KafkaError) as refused:
        create(broker, "not/a topic")
    assert type(refused.value).__name__ == "InvalidTopicError"


def test_topics_are_described_with_their_settings(broker, name):
    create(broker, name, config={"max.message.bytes": "54321"})
    by = admin(broker)
    described = str(by.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
    by.close()
    assert "max.message.bytes" in described and "54321" in described


def test_a_deleted_topic_comes_back_empty(broker, name):
    create(broker, name)
    by = producer(broker)
    send(by, name, [(None, b"old")])
    by.close()
    control = admin(broker)
    control.delete_topics([name])
    eventually("the topic is gone", lambda: name not in control.list_topics())
    control.close()
    create(broker, name)
    by = producer(broker)
    assert send(by, name, [(None, b"new")])[0].offset == 0
    by.close()
    assert [m.value for m in read_all(broker, name)[0]] == [b"new"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_messages_and_committed_offsets_survive(own_broker, name, end):
    create(own_broker, name, 3)
    by = producer(own_broker)
    sent = [(f"{n}".encode(), f"{n}".encode() * 100) for n in range(300)]
    places = send(by, name, sent)
    by.close()
    one = consumer(own_broker, group=name)
    one.assign([TopicPartition(name, 0)])
    one.commit({TopicPartition(name, 0): OffsetAndMetadata(5, "", -1)})
    one.close()

    getattr(own_broker, end)()
    own_broker.start()

    stored = read_all(own_broker, name, 3)
    assert {(m.partition, m.offset): m.value for messages in stored.values() for m in messages} == \
        {(p.partition, p.offset): value for p, (_, value) in zip(places, sent)}
    one = consumer(own_broker, group=name)
    assert one.committed(TopicPartition(name, 0)) == 5
    one.close()
