"""What no official client sends of itself: requests by hand, in the old forms that old clients still use."""

import struct

import pytest

from fourfold import eventually
from kit import create
from rawkafka import Connection, batch, data, listed, text

PRODUCE, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, API_VERSIONS, INIT_PRODUCER_ID = 11, 12, 13, 14, 18, 22


@pytest.fixture
def raw(broker):
    one = Connection(broker.kafka_port)
    yield one
    one.close()


def versions(raw, version=0):
    # From version 3 on the header ends with tags, and the body names the client.
    answer = raw.ask(API_VERSIONS, version, b"" if version < 3 else b"\0" + b"\2j\2" + b"1\0")
    error = answer.int16()
    return error, {key: span for key, span in answer.list(lambda: (answer.int16(), (answer.int16(), answer.int16())))}


def test_produce_is_listed_from_version_0_for_old_librdkafka(raw):
    error, offered = versions(raw)
    assert error == 0
    assert offered[PRODUCE][0] == 0
    assert offered[API_VERSIONS][0] == 0


def test_a_version_too_new_is_answered_in_the_oldest_form_and_the_connection_lives(raw):
    error, offered = versions(raw, 99)
    assert error == 35
    assert API_VERSIONS in offered
    assert versions(raw)[0] == 0


@pytest.mark.parametrize("key, version", [(PRODUCE, 2), (1, 99), (3, 99), (999, 0)])
def test_a_request_of_no_known_version_closes_only_its_own_connection(broker, raw, key, version):
    other = Connection(broker.kafka_port)
    assert versions(other)[0] == 0
    raw.send(key, version, b"\0" * 8)
    assert raw.receive() is None
    assert versions(other)[0] == 0
    other.close()


@pytest.mark.parametrize("junk", [
    b"GET / HTTP/1.1\r\n\r\n",
    struct.pack(">i", -1),
    struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    struct.pack(">i", 4) + b"\0\0\0\0",
    struct.pack(">ihhih", 14, 3, 5, 1, -1) + struct.pack(">i", 0x7FFFFFF0),
])
def test_junk_harms_nobody_else(broker, junk):
    one = Connection(broker.kafka_port)
    one.socket.sendall(junk)
    other = Connection(broker.kafka_port)
    assert versions(other)[0] == 0
    other.close()
    one.close()


def produce(raw, topic, records, acks=-1):
    body = text(None) + struct.pack(">hi", acks, 20_000) + listed([text(topic) + listed([struct.pack(">i", 0) + data(records)])])
    answer = raw.ask(PRODUCE, 7, body)
    (_, ((_, error, offset, _, _),)), = answer.list(lambda: (answer.text(), answer.list(
        lambda: (answer.int32(), answer.int16(), answer.int64(), answer.int64(), answer.int64()))))
    return error, offset


def producer_id(raw):
    def ask():
        answer = raw.ask(INIT_PRODUCER_ID, 0, text(None) + struct.pack(">i", 60_000))
        answer.int32()
        error = answer.int16()
        return error == 0 and (answer.int64() + 1, answer.int16())
    # Right after its start the broker may say that it is still loading.
    shifted, epoch = eventually("a producer id is given", ask)
    return shifted - 1, epoch


def test_the_last_five_batches_of_a_producer_are_known_again(broker, raw, name):
    create(broker, name)
    pid, epoch = producer_id(raw)

    def send(sequence, epoch=epoch):
        return produce(raw, name, batch([b"x"], pid, epoch, sequence))

    assert [send(n) for n in range(5)] == [(0, n) for n in range(5)]
    assert [send(n) for n in (1, 3, 0)] == [(0, 1), (0, 3), (0, 0)]
    assert send(7)[0] == 45, "a gap"
    assert send(5) == (0, 5)
    assert send(0)[0] == 45, "six batches back"
    assert send(0, epoch + 1) == (0, 6)
    assert send(6)[0] == 47, "the old epoch"


def test_a_damaged_batch_is_refused_and_the_connection_lives(broker, raw, name):
    create(broker, name)
    good = batch([b"hello"])
    damaged = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
    assert produce(raw, name, damaged)[0] == 2
    assert produce(raw, name, good[:40])[0] in (2, 87)
    assert produce(raw, name + "-unknown-topic-that-is-not-made", b"")[0] in (2, 3, 42, 87)
    assert produce(raw, name, good) == (0, 0)


def coordinator(raw, group):
    answer = raw.ask(FIND_COORDINATOR, 0, text(group))
    return answer.int16()


def join(raw, group, member="", instance=None, topics=b"meta"):
    body = text(group) + struct.pack(">ii", 10_000, 10_000) + text(member) + text(instance) + text("consumer")
    answer = raw.ask(JOIN, 5, body + listed([text("range") + data(topics)]))
    answer.int32()
    error, generation = answer.int16(), answer.int32()
    answer.text()
    leader, member = answer.text(), answer.text()
    return error, generation, leader, member


def sync(raw, group, generation, member, instance, shares=()):
    body = text(group) + struct.pack(">i", generation) + text(member) + text(instance)
    answer = raw.ask(SYNC, 3, body + listed([text(who) + data(share) for who, share in shares]))
    answer.int32()
    return answer.int16(), answer.data32()


def heartbeat(raw, group, generation, member, instance):
    answer = raw.ask(HEARTBEAT, 3, text(group) + struct.pack(">i", generation) + text(member) + text(instance))
    answer.int32()
    return answer.int16()


def commit(raw, group, generation, member, instance, topic, offset):
    body = text(group) + struct.pack(">i", generation) + text(member) + text(instance)
    body += listed([text(topic) + listed([struct.pack(">iqi", 0, offset, -1) + text(None)])])
    answer = raw.ask(OFFSET_COMMIT, 7, body)
    answer.int32()
    (_, ((_, error),)), = answer.list(lambda: (answer.text(), answer.list(lambda: (answer.int32(), answer.int16()))))
    return error


def test_a_first_join_without_an_id_is_given_one(broker, raw, name):
    eventually("the coordinator is there", lambda: coordinator(raw, name) == 0)
    error, _, _, member = join(raw, name)
    assert error == 79 and member
    error, generation, leader, same = join(raw, name, member)
    assert (error, leader, same) == (0, member, member)
    assert sync(raw, name, generation, member, None, [(member, b"mine")]) == (0, b"mine")


def test_the_newer_static_member_takes_the_place_without_a_rebalance(broker, raw, name):
    create(broker, name)
    eventually("the coordinator is there", lambda: coordinator(raw, name) == 0)
    error, generation, _, first = join(raw, name, instance="i")
    assert error == 0
    assert sync(raw, name, generation, first, "i", [(first, b"all")]) == (0, b"all")
    assert heartbeat(raw, name, generation, first, "i") == 0
    newer = Connection(broker.kafka_port)
    error, again, _, second = join(newer, name, instance="i")
    assert (error, again) == (0, generation), "no rebalance"
    assert second != first
    assert heartbeat(raw, name, generation, first, "i") == 82
    assert commit(raw, name, generation, first, "i", name, 1) == 82
    assert sync(newer, name, generation, second, "i") == (0, b"all")
    assert heartbeat(newer, name, generation, second, "i") == 0
    newer.close()


def fetch_offsets(raw, group, topics):
    answer = raw.ask(OFFSET_FETCH, 2, text(group) + (struct.pack(">i", -1) if topics is None else listed(topics)))
    found = answer.list(lambda: (answer.text(), answer.list(
        lambda: (answer.int32(), answer.int64(), answer.text(), answer.int16()))))
    return answer.int16(), {(topic, p): offset for topic, places in found for p, offset, _, _ in places}


def test_offsets_of_all_topics_are_fetched_by_null(broker, raw, name):
    topics = [name + "-a", name + "-b"]
    eventually("the coordinator is there", lambda: coordinator(raw, name) == 0)
    for at, topic in enumerate(topics):
        create(broker, topic)
        assert commit(raw, name, -1, "", None, topic, at) == 0
    assert fetch_offsets(raw, name, None) == (0, {(topics[0], 0): 0, (topics[1], 0): 1})
    asked = [text(topics[0]) + listed([struct.pack(">i", p) for p in (0, 1)])]
    assert fetch_offsets(raw, name, asked) == (0, {(topics[0], 0): 0, (topics[0], 1): -1})
    assert fetch_offsets(raw, name + "-unknown", None) == (0, {})
