"""Settings, records and partitions of a topic in use, by kafka-python and by hand: exact codes of what is refused."""

import gzip
import struct
import time

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from kit import admin, create, producer, read_all, send
from rawkafka import Connection, batch, crc32c, listed, produce, text, trim

LIST_OFFSETS, ALTER, GROW, INCREMENTAL = 2, 33, 37, 44
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def raw(broker):
    one = Connection(broker.kafka_port)
    yield one
    one.close()


def outcomes(answer):
    answer.int32()
    return [code for code, _, _, _ in answer.list(
        lambda: (answer.int16(), answer.text(), answer._take(">b"), answer.text()))]


def incremental(raw, *resources, validate=False):
    def one(kind, name, ops):
        return struct.pack(">b", kind) + text(name) + listed(
            [text(key) + struct.pack(">b", op) + text(value) for key, op, value in ops])
    body = listed([one(*resource) for resource in resources]) + struct.pack(">?", validate)
    return outcomes(raw.ask(INCREMENTAL, 0, body))


def replacing(raw, *resources, validate=False):
    def one(kind, name, configs):
        return struct.pack(">b", kind) + text(name) + listed([text(key) + text(value) for key, value in configs])
    return outcomes(raw.ask(ALTER, 1, listed([one(*resource) for resource in resources]) + struct.pack(">?", validate)))


def test_bad_changes_of_settings_have_kafkas_codes(broker, raw, name):
    create(broker, name)
    size = "max.message.bytes"
    for ops, wanted in [
        ([("no.such", SET, "1")], 40), ([("no.such", DELETE, None)], 0), ([(size, SET, "abc")], 40),
        ([(size, SET, None)], 42), ([("cleanup.policy", APPEND, None)], 42), ([(size, APPEND, "5")], 40),
        ([("cleanup.policy", APPEND, "foo")], 40), ([("cleanup.policy", SUBTRACT, "foo")], 0), ([], 0),
        ([(size, SET, "5"), (size, SET, "6")], 42), ([(size, SET, "5"), ("min.insync.replicas", SET, "0")], 40),
    ]:
        assert incremental(raw, (TOPIC, name, ops), validate=True) == [wanted], ops
        assert incremental(raw, (TOPIC, name, ops)) == [wanted], ops
    one = [(size, SET, "5")]
    assert incremental(raw, (TOPIC, name + "-not", one)) == [3]
    assert incremental(raw, (TOPIC, "not/one", one)) == [17]
    assert incremental(raw, (TOPIC, "", one)) == [42]
    assert incremental(raw, (99, name, one)) == [42]
    assert incremental(raw, (TOPIC, name, one), (TOPIC, name, [])) == [42, 42]
    assert incremental(raw, (BROKER, "not-a-number", one)) == [42]
    assert replacing(raw, (TOPIC, name, [(size, None)])) == [42]
    assert replacing(raw, (TOPIC, name, [("no.such", "1")])) == [40]
    assert replacing(raw, (TOPIC, name + "-not", [(size, "5")])) == [3]


def test_altering_the_old_way_takes_back_what_is_not_named(broker, raw, name):
    create(broker, name, config={"max.message.bytes": "54321"})
    assert replacing(raw, (TOPIC, name, [("message.timestamp.type", "LogAppendTime")])) == [0]
    by = admin(broker)
    end = time.monotonic() + 30
    while "54321" in str(by.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])):
        assert time.monotonic() < end
    assert "LogAppendTime" in str(by.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
    by.close()


def test_records_are_removed_with_kafkas_codes(broker, raw, name):
    create(broker, name)
    by = producer(broker)
    send(by, name, [(None, f"{n}".encode()) for n in range(9)])
    by.close()
    for offset, wanted in [(4, (4, 0)), (2, (4, 0)), (10, (-1, 1)), (-2, (-1, 1)), (9, (9, 0)), (-1, (9, 0))]:
        assert trim(raw, name, offset) == wanted, offset
    assert trim(raw, name, 0, partition=1) == (-1, 3)
    assert trim(raw, name + "-not", 0) == (-1, 3)


def grow(raw, topic, count, assignments=None, validate=False):
    named = struct.pack(">i", -1) if assignments is None else listed(
        [listed([struct.pack(">i", node) for node in nodes]) for nodes in assignments])
    answer = raw.ask(GROW, 0, listed([text(topic) + struct.pack(">i", count) + named]) + struct.pack(">i?", 20_000, validate))
    answer.int32()
    ((_, code, _),) = answer.list(lambda: (answer.text(), answer.int16(), answer.text()))
    return code


def test_growing_has_kafkas_codes(broker, raw, name):
    create(broker, name, 2)
    for count, assignments, wanted in [(2, None, 37), (1, None, 37), (-1, None, 37), (20_000, None, 44), (4, [[1]], 39),
                                       (3, [[77]], 39), (3, [[]], 39), (3, [], 39)]:
        assert grow(raw, name, count, assignments) == wanted, (count, assignments)
    assert grow(raw, name + "-not", 3) == 3
    assert grow(raw, name, 3, validate=True) == 0
    assert grow(raw, name, 4) == 0
    by = producer(broker)
    assert by.send(name, value=b"x", partition=3).get(30).offset == 0
    by.close()


def packed(values, count=None, more=b""):
    """A gzip batch that claims to hold `count` records."""
    plain = batch(values)
    tail = bytearray(plain[21:61])
    tail[0:2] = struct.pack(">h", 1)
    if count is not None:
        tail[2:6] = struct.pack(">i", count - 1)
        tail[36:40] = struct.pack(">i", count)
    tail = bytes(tail) + gzip.compress(plain[61:] + more)
    return struct.pack(">qiiBI", 0, len(tail) + 9, 0, 2, crc32c(tail)) + tail


def test_a_compressed_batch_that_does_not_hold_what_it_claims_is_refused(broker, raw, name):
    create(broker, name)
    values = [b"a", b"b", b"c"]
    assert produce(raw, name, packed(values)) == (0, 0)
    for claim in [2, 4, 0x7FFFFFFF]:
        assert produce(raw, name, packed(values, claim)) == (87, -1), claim
    assert produce(raw, name, packed(values, more=b"\0")) == (87, -1)
    assert produce(raw, name, packed(values)) == (0, 3)
    assert [m.value for m in read_all(broker, name)[0]] == values * 2


def test_special_times_are_known_from_their_versions_on(broker, raw, name):
    create(broker, name)
    for version in range(1, 6):
        for time_, wanted in [(-1, 0), (-2, 0), (0, 0), (-3, 35), (-4, 35), (-5, 35), (-6, 35), (-7, 35)]:
            epoch = struct.pack(">i", -1) if version >= 4 else b""
            body = struct.pack(">i", -1) + (b"\0" if version >= 2 else b"") + listed(
                [text(name) + listed([struct.pack(">i", 0) + epoch + struct.pack(">q", time_)])])
            answer = raw.ask(LIST_OFFSETS, version, body)
            if version >= 2:
                answer.int32()
            answer.int32()
            answer.text()
            answer.int32()
            answer.int32()
            assert answer.int16() == wanted, (version, time_)


def test_kafka_python_trims_and_grows(broker, name):
    create(broker, name)
    by = producer(broker)
    send(by, name, [(None, f"{n}".encode()) for n in range(5)])
    by.close()
    control = admin(broker)
    control.delete_records({TopicPartition(name, 0): 3})
    assert [m.value for m in read_all(broker, name)[0]] == [b"3", b"4"]
    control.create_partitions({name: 2})
    control.close()
