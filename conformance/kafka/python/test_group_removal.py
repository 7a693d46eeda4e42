"""Groups and committed offsets removed by kafka-python's admin client, and by hand for what it never asks: the codes are
those that Kafka 4.4 answers to the same requests."""

import struct

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from fourfold import eventually
from kit import admin, consumer, create
from rawkafka import Connection, listed, text

DELETE_GROUPS, OFFSET_DELETE, JOIN = 42, 47, 11
OK, UNKNOWN_TOPIC, INVALID_GROUP, NON_EMPTY, NOT_FOUND, SUBSCRIBED = 0, 3, 24, 68, 69, 86


@pytest.fixture
def broker(own_broker):
    return own_broker


@pytest.fixture
def raw(broker):
    one = Connection(broker.kafka_port)
    yield one
    one.close()


def commit(broker, group, topic, *partitions):
    """By a consumer that is no member of the group."""
    one = consumer(broker, group=group)
    places = [TopicPartition(topic, p) for p in partitions]
    one.assign(places)
    one.commit({place: OffsetAndMetadata(3 + place.partition, "", -1) for place in places})
    one.close()


def committed(broker, group):
    one = admin(broker)
    try:
        answer = one.list_group_offsets(group)
    finally:
        one.close()
    answer = answer.get(group, answer)
    return {place.partition: found.offset for place, found in answer.items() if found.offset >= 0}


def delete_groups(raw, *groups, version=0):
    answer = raw.ask(DELETE_GROUPS, version, listed([text(group) for group in groups]))
    answer.int32()
    return answer.list(lambda: (answer.text(), answer.int16()))


def delete_offsets(raw, group, *topics):
    body = text(group) + listed(
        [text(topic) + listed([struct.pack(">i", p) for p in partitions]) for topic, partitions in topics])
    answer = raw.ask(OFFSET_DELETE, 0, body)
    code, _ = answer.int16(), answer.int32()
    parts = answer.list(lambda: (answer.text(), answer.list(lambda: (answer.int32(), answer.int16()))))
    return code, {topic: dict(codes) for topic, codes in parts}


def join(raw, group, kind, metadata=b""):
    """Joins by hand as the only member, and stays."""
    def ask(member):
        protocols = listed([text("range") + struct.pack(">i", len(metadata)) + metadata])
        body = text(group) + struct.pack(">ii", 30_000, 1_000) + text(member) + text(kind) + protocols
        answer = raw.ask(JOIN, 1, body)
        return answer.int16()
    assert ask("") == OK


def test_a_group_without_members_is_deleted_with_its_offsets_for_ever(broker, raw, name):
    create(broker, name, partitions=3)
    commit(broker, name, name, 0, 1, 2)
    commit(broker, name + "-kept", name, 0)
    assert committed(broker, name) == {0: 3, 1: 4, 2: 5}
    one = admin(broker)
    one.delete_groups([name])
    assert committed(broker, name) == {}
    assert name not in [found["group_id"] if isinstance(found, dict) else found[0] for found in one.list_groups()]
    one.close()
    wanted = {name: NOT_FOUND, name + "-no": NOT_FOUND, "": NOT_FOUND}
    assert dict(delete_groups(raw, name, name + "-no", "")) == wanted
    broker.restart(hard=True)
    assert committed(broker, name) == {}
    assert committed(broker, name + "-kept") == {0: 3}
    commit(broker, name, name, 1)
    assert committed(broker, name) == {1: 4}, "a new group of the old name"


def test_a_group_with_members_stays(broker, raw, name):
    create(broker, name)
    member = consumer(broker, name, group=name)
    eventually("the member reads", lambda: member.poll(100) is not None and member.assignment())
    member.commit({TopicPartition(name, 0): OffsetAndMetadata(7, "", -1)})
    assert delete_groups(raw, name, name, version=1) == [(name, NON_EMPTY)]
    member.close()
    assert delete_groups(raw, name, name, version=1) == [(name, OK)]


def test_offsets_are_deleted_one_by_one(broker, raw, name):
    create(broker, name, partitions=3)
    commit(broker, name, name, 0, 1, 2)
    one = admin(broker)
    one.delete_group_offsets(name, [TopicPartition(name, 1)])
    one.close()
    assert committed(broker, name) == {0: 3, 2: 5}
    assert delete_offsets(raw, name + "-no", (name, [0])) == (NOT_FOUND, {})
    assert delete_offsets(raw, "", (name, [0])) == (INVALID_GROUP, {})
    code, found = delete_offsets(raw, name, (name, [1, 2, 9, -1, 2]), (name + "-no", [0]))
    wanted = {1: OK, 2: OK, 9: UNKNOWN_TOPIC, -1: UNKNOWN_TOPIC}
    assert (code, found) == (OK, {name: wanted, name + "-no": {0: UNKNOWN_TOPIC}})
    assert committed(broker, name) == {0: 3}
    broker.restart(hard=True)
    assert committed(broker, name) == {0: 3}


def test_of_a_group_in_use_only_offsets_of_topics_it_has_left_are_deleted(broker, raw, name):
    left, used = name + "-left", name + "-used"
    create(broker, left)
    create(broker, used)
    member = consumer(broker, used, group=name)
    eventually("the member reads", lambda: member.poll(100) is not None and member.assignment())
    places = {TopicPartition(left, 0): 7, TopicPartition(used, 0): 8}
    member.commit({place: OffsetAndMetadata(offset, "", -1) for place, offset in places.items()})
    code, found = delete_offsets(raw, name, (used, [0]), (left, [0]))
    assert (code, found) == (OK, {used: {0: SUBSCRIBED}, left: {0: OK}})
    one = admin(broker)
    offsets = one.list_group_offsets(name)
    offsets = offsets.get(name, offsets)
    assert {place.topic: found.offset for place, found in offsets.items() if found.offset >= 0} == {used: 8}
    one.close()
    member.close()
    # Others than consumers subscribe to nothing that a broker knows: nothing of theirs is deleted while they are there.
    join(raw, name + "-connect", "connect")
    other = Connection(broker.kafka_port)
    assert delete_offsets(other, name + "-connect", (used, [0])) == (NON_EMPTY, {})
    other.close()
