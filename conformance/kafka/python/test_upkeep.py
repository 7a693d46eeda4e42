"""What topics keep and what they let go of: compaction by key, retention by age and size, through restarts and kills."""

import os
import time

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from fourfold import Broker, eventually
from kit import admin, consumer, create, producer, send, take
from rawkafka import Connection, batch, produce, trim

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
# Each of the batches below is larger: it fills a segment of its own, and the next one closes it.
SEGMENT = {"segment.bytes": "1000"}
COMPACT = SEGMENT | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
HOUR_MS = 3_600_000


def often():
    """A broker that looks for what to compact and to delete ten times a second."""
    return Broker("--topics-compaction-check", "100ms", "--topics-retention-check", "100ms")


@pytest.fixture(scope="module")
def keeper():
    one = often()
    try:
        yield one.start()
    finally:
        one.close()


@pytest.fixture
def own_keeper():
    """One for this test alone: to be killed."""
    one = often()
    try:
        yield one.start()
    finally:
        one.close()


def rows(keys):
    # Values that no codec makes smaller.
    return [(key.encode(), os.urandom(100)) for key in keys]


def send_batches(broker, topic, batches, age_ms=0, **config):
    """Sends each list of (key, value) as one batch; answers all as (offset, key, value)."""
    sent = []
    at = int(time.time() * 1000) - age_ms
    by = producer(broker, linger_ms=10_000, **config)
    try:
        for messages in batches:
            waiting = [by.send(topic, key=key, value=value, timestamp_ms=at) for key, value in messages]
            by.flush(60)
            sent += [(one.get(60).offset, *message) for one, message in zip(waiting, messages)]
    finally:
        by.close()
    return sent


def last_values(sent):
    return sorted({key: (offset, key, value) for offset, key, value in sent}.values())


def bounds(broker, topic):
    """The earliest offset and the one that comes next."""
    place = TopicPartition(topic, 0)
    one = consumer(broker)
    try:
        return one.beginning_offsets([place])[place], one.end_offsets([place])[place]
    finally:
        one.close()


def remaining(broker, topic):
    """All that is left, as (offset, key, value). The newest message is never compacted away, so reading ends with it."""
    place = TopicPartition(topic, 0)
    one = consumer(broker)
    try:
        one.assign([place])
        one.seek_to_beginning(place)
        start, end = one.beginning_offsets([place])[place], one.end_offsets([place])[place]
        got = []
        deadline = time.monotonic() + 30
        while start < end and (not got or got[-1].offset < end - 1):
            assert time.monotonic() < deadline, f"{topic} ends at {end}; read up to {got[-1:]}"
            for messages in one.poll(timeout_ms=200).values():
                got += messages
        return [(m.offset, m.key, m.value) for m in got]
    finally:
        one.close()


def await_left(broker, topic, wanted):
    def left():
        return remaining(broker, topic) == wanted
    eventually(f"only {len(wanted)} messages are left in {topic}", left, 60)


def many_versions():
    """Twelve versions of eight keys; others that come once; and a key of its own, which closes the segment before it.

    Of its own, as a newer version of it in the newest segment would not yet count.
    """
    versions = [rows(f"key-{n}" for n in range(8)) for _ in range(12)]
    versions[0] += rows(["only-first"])
    versions[5] = rows(["only-fifth"]) + versions[5]
    return [*versions, rows([f"end-{os.urandom(8).hex()}"])]


@pytest.mark.parametrize("codec", CODECS)
def test_compaction_leaves_the_last_value_of_each_key_at_its_offset(keeper, name, codec):
    create(keeper, name, config=COMPACT)
    sent = send_batches(keeper, name, many_versions(), compression_type=codec)
    await_left(keeper, name, last_values(sent))
    assert bounds(keeper, name) == (0, len(sent))


def test_the_newest_segment_is_not_compacted(keeper, name):
    create(keeper, name, config=COMPACT | {"segment.bytes": "1000000"})
    other = name + "-other"
    create(keeper, other, config=COMPACT)
    sent = send_batches(keeper, name, many_versions())
    # Once another topic has been compacted since, this one has been looked at too.
    since = send_batches(keeper, other, many_versions())
    await_left(keeper, other, last_values(since))
    assert remaining(keeper, name) == sent


def test_a_tombstone_takes_its_key_along_and_goes_after_its_time(keeper, name):
    stays, goes = name + "-stays", name + "-goes"
    create(keeper, stays, config=COMPACT)
    create(keeper, goes, config=COMPACT | {"delete.retention.ms": "300"})
    for topic in (stays, goes):
        sent = send_batches(keeper, topic, [rows(f"key-{n}" for n in range(9)), [(b"key-3", None)], *many_versions()[1:]])
        wanted = last_values(sent)
        tombstone = (9, b"key-3", None)
        assert tombstone not in wanted, "the key comes again"
        await_left(keeper, topic, wanted)
        last = send_batches(keeper, topic, [[(b"key-3", None), *rows(["more"] * 9)], rows(["last"])])
        wanted = last_values(sent + last)
        if topic == goes:
            wanted = [one for one in wanted if one[2] is not None]
        await_left(keeper, topic, wanted)
        assert ((last[0][0], b"key-3", None) in remaining(keeper, topic)) == (topic == stays)


def test_what_compaction_left_survives_a_restart_and_a_kill(own_keeper, name):
    broker = own_keeper
    create(broker, name, config=COMPACT)
    sent = send_batches(broker, name, many_versions())
    await_left(broker, name, last_values(sent))
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        # Older versions may be back for a moment (docs/kafka.md); no last value is gone and nothing has moved.
        left = remaining(broker, name)
        assert set(left) <= set(sent) and set(last_values(sent)) <= set(left)
        await_left(broker, name, last_values(sent))
        assert bounds(broker, name) == (0, len(sent))
        sent += send_batches(broker, name, many_versions())
        await_left(broker, name, last_values(sent))


def test_a_kill_while_it_compacts_loses_no_last_value(own_keeper, name):
    broker = own_keeper
    create(broker, name, config=COMPACT)
    sent = []
    for _ in range(4):
        sent += send_batches(broker, name, many_versions())
        broker.kill()
        broker.start()
        left = remaining(broker, name)
        assert set(left) <= set(sent) and set(last_values(sent)) <= set(left)
    await_left(broker, name, last_values(sent))


def test_a_compacted_topic_refuses_what_has_no_key_and_to_be_trimmed(keeper, name):
    create(keeper, name, config=COMPACT)
    raw = Connection(keeper.kafka_port)
    try:
        assert produce(raw, name, batch([b"x"])) == (87, -1)
        send_batches(keeper, name, many_versions())
        assert trim(raw, name, 4) == (-1, 44)
        alter(keeper, name, {"cleanup.policy": "compact,delete"})
        eventually("it may be trimmed", lambda: trim(raw, name, 4) == (4, 0))
    finally:
        raw.close()
    by = producer(keeper)
    with pytest.raises(KafkaError) as refused:
        by.send(name, value=b"x").get(30)
    by.close()
    assert refused.value.errno == 87
    assert bounds(keeper, name)[0] == 4


def alter(broker, topic, configs):
    by = admin(broker)
    try:
        by.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
    finally:
        by.close()


def ten_batches():
    return [rows(f"{n}-{m}" for m in range(10)) for n in range(10)]


def await_start(broker, topic, start):
    def is_there():
        now = bounds(broker, topic)[0]
        assert now <= start, f"{topic} begins at {now}: more is gone than {start}"
        return now == start
    eventually(f"{topic} begins at {start}", is_there, 60)


def test_what_is_too_old_goes_and_readers_go_on_with_the_rest(keeper, name):
    create(keeper, name, config=SEGMENT)
    old = send_batches(keeper, name, ten_batches(), age_ms=HOUR_MS)
    place = TopicPartition(name, 0)
    reader = consumer(keeper, name, group=name, max_poll_records=1, fetch_max_bytes=1, max_partition_fetch_bytes=1)
    take(reader, 1)
    reader.commit()
    reader.close()
    living = consumer(keeper)
    living.assign([place])
    living.seek(place, 5)
    alter(keeper, name, SEGMENT | {"retention.ms": str(HOUR_MS // 2)})
    await_start(keeper, name, len(old))
    new = send_batches(keeper, name, ten_batches())
    assert remaining(keeper, name) == new
    late = consumer(keeper, name, group=name)
    for one in (living, late):
        got = take(one, len(new))
        assert [(m.offset, m.key, m.value) for m in got] == new
        one.close()


def test_a_topic_whose_messages_all_grow_too_old_is_empty_and_its_offsets_go_on(keeper, name):
    create(keeper, name, config=SEGMENT | {"retention.ms": "300"})
    sent = send_batches(keeper, name, ten_batches())
    await_start(keeper, name, len(sent))
    assert bounds(keeper, name) == (len(sent), len(sent))
    assert send_batches(keeper, name, [rows(["next"])])[0][0] == len(sent)


def test_a_topic_keeps_the_newest_segments_that_fit_and_they_survive(own_keeper, name):
    broker = own_keeper
    create(broker, name, config=SEGMENT | {"retention.bytes": "5000"})
    # A batch of ten takes 1,100 to 1,250 bytes: only with five of them it is 5,000 bytes.
    sent = send_batches(broker, name, ten_batches())
    await_start(broker, name, 50)
    assert remaining(broker, name) == sent[50:]
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        kept = bounds(broker, name)[0]
        assert kept == len(sent) - 50
        assert remaining(broker, name) == sent[kept:]
        sent += send_batches(broker, name, ten_batches())
        await_start(broker, name, len(sent) - 50)
        assert remaining(broker, name) == sent[-50:]


def test_a_new_age_acts_on_a_topic_in_use_and_survives(own_keeper, name):
    broker = own_keeper
    create(broker, name, config=SEGMENT)
    old = send_batches(broker, name, ten_batches(), age_ms=HOUR_MS)
    new = send_batches(broker, name, ten_batches())
    assert remaining(broker, name) == old + new
    alter(broker, name, SEGMENT | {"retention.ms": str(HOUR_MS // 2)})
    await_start(broker, name, len(old))
    for end in (broker.kill, broker.stop):
        end()
        broker.start()
        assert remaining(broker, name) == new
    old = send_batches(broker, name, ten_batches(), age_ms=HOUR_MS)
    alter(broker, name, SEGMENT | {"retention.ms": "1"})
    await_start(broker, name, old[-1][0] + 1)


def test_what_every_group_has_consumed_goes_if_the_topic_asks_for_it(own_keeper, name):
    create(own_keeper, name, config=SEGMENT | {"retention.ms": "-1", "retention.consumed": "true"})
    sent = send_batches(own_keeper, name, ten_batches())
    place, closed = TopicPartition(name, 0), sent[-10][0]

    def reads(group, offset):
        one = consumer(own_keeper, group=group)
        try:
            one.assign([place])
            one.commit({place: OffsetAndMetadata(offset, "", -1)})
        finally:
            one.close()
    reads("fast", sent[-1][0] + 1)
    reads("slow", 0)
    # What goes from another topic shows that it was looked meanwhile.
    create(own_keeper, name + "-clock", config=SEGMENT | {"retention.ms": "1000"})
    send_batches(own_keeper, name + "-clock", ten_batches(), age_ms=HOUR_MS)
    eventually("the clock", lambda: bounds(own_keeper, name + "-clock")[0] > 0)
    assert bounds(own_keeper, name)[0] == 0, "one group has not read anything yet"
    reads("slow", closed)
    await_start(own_keeper, name, closed)
    own_keeper.kill()
    own_keeper.start()
    assert bounds(own_keeper, name)[0] == closed


def described(broker, topic):
    by = admin(broker)
    try:
        return str(by.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    finally:
        by.close()


def test_the_step_of_an_index_is_set_and_honoured_and_records_are_found_through_it(name):
    one = Broker("--storage-journal-file-bytes", "1MiB", "--storage-journal-files-max", "2")
    try:
        one.start()
        for value in ("100", "0", "2000000"):
            with pytest.raises(KafkaError):
                create(one, name + value, config={"index.interval.bytes": value})
        create(one, name)
        alter(one, name, {"index.interval.bytes": "16384"})
        eventually("it is changed", lambda: "16384" in described(one, name))
        fine = name + "-fine"
        create(one, fine, config={"index.interval.bytes": "4096"})
        by = producer(one, linger_ms=0)
        sent = [by.send(topic, value=os.urandom(1000), timestamp_ms=1_700_000_000_000 + n)
                for n in range(4000) for topic in (name, fine)]
        by.flush(60)
        by.close()
        assert [sent[-2].get(60).offset, sent[-1].get(60).offset] == [3999, 3999]
        one.kill()
        one.start()
        assert "16384" in described(one, name) and "4096" in described(one, fine)
        for topic in (name, fine):
            by = consumer(one)
            place = TopicPartition(topic, 0)
            by.assign([place])
            for n in (0, 1, 777, 2500, 3999):
                by.seek(place, n)
                assert take(by, 1)[0].offset == n
                found = by.offsets_for_times({place: 1_700_000_000_000 + n})[place]
                assert (found.offset, found.timestamp) == (n, 1_700_000_000_000 + n)
            by.close()
    finally:
        one.close()
