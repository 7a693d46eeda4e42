"""What librdkafka's consumer is promised."""

import time

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from fourfold import eventually
from kit import consumer, create, producer, send, take


def poll_all(consumers):
    return [message for one in consumers if (message := one.poll(0.05)) is not None and not message.error()]


def shares(consumers):
    return [sorted(p.partition for p in one.assignment()) for one in consumers]


def await_shares(consumers, wanted, seconds=60):
    """Polls all until their partitions are `wanted`, in any order of members. Answers what came meanwhile."""
    got = []

    def settled():
        got.extend(poll_all(consumers))
        return sorted(shares(consumers)) == sorted(wanted)

    eventually(f"the partitions are shared as {wanted}", settled, seconds)
    return got


def test_three_members_share_ten_partitions_in_ranges(broker, name):
    create(broker, name, 10)
    three = [consumer(broker, name, partition_assignment_strategy="range") for _ in range(3)]
    for one in three:
        one.subscribe([name])
    await_shares(three, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]])
    for one in three:
        one.close()


def test_three_members_share_ten_partitions_in_turn(broker, name):
    create(broker, name, 10)
    three = [consumer(broker, name, partition_assignment_strategy="roundrobin") for _ in range(3)]
    for one in three:
        one.subscribe([name])
    await_shares(three, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]])
    for one in three:
        one.close()


def test_a_group_grows_and_shrinks_and_every_message_is_read(broker, name):
    create(broker, name, 4)
    by = producer(broker)
    first = consumer(broker, name, partition_assignment_strategy="cooperative-sticky")
    first.subscribe([name])
    got = await_shares([first], [[0, 1, 2, 3]])
    second = consumer(broker, name, partition_assignment_strategy="cooperative-sticky")
    second.subscribe([name])
    eventually("each has two", lambda: got.extend(poll_all([first, second])) or
               [len(share) for share in shares([first, second])] == [2, 2])
    send(by, name, [(f"{n}".encode(), f"{n}".encode()) for n in range(200)])
    eventually("all are read", lambda: got.extend(poll_all([first, second])) or len(got) >= 200)
    assert sorted(int(m.value()) for m in got) == list(range(200))
    second.commit(asynchronous=False)
    second.close()
    await_shares([first], [[0, 1, 2, 3]])
    first.close()


def test_committed_offsets_are_where_a_group_goes_on(broker, name):
    create(broker, name)
    send(producer(broker), name, [(None, f"{n}".encode()) for n in range(10)])
    one = consumer(broker, name)
    one.subscribe([name])
    four = take(one, 4)
    one.commit(message=four[-1], asynchronous=False)
    assert one.committed([TopicPartition(name, 0)], timeout=30)[0].offset == 4
    one.close()
    two = consumer(broker, name)
    two.subscribe([name])
    assert [m.value() for m in take(two, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    two.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_seek_by_time_finds_the_message_inside_a_batch(broker, name, codec):
    create(broker, name)
    by = producer(broker, compression_type=codec, linger_ms=1000)
    for n in range(50):
        by.produce(name, b"x" * 20, timestamp=1_700_000_000_000 + n)
    assert by.flush(30) == 0
    one = consumer(broker, name)
    asked = {1_700_000_000_020: 20, 1: 0, 1_700_000_000_050: OFFSET_END}
    for at, wanted in asked.items():
        assert one.offsets_for_times([TopicPartition(name, 0, at)], timeout=30)[0].offset == wanted, at
    one.close()


def test_a_fetch_waits_for_what_is_produced_later(broker, name):
    create(broker, name)
    one = consumer(broker, name, fetch_wait_max_ms=5000)
    one.assign([TopicPartition(name, 0, 0)])
    assert one.poll(1.0) is None
    start = time.monotonic()
    send(producer(broker), name, [(None, b"late")])
    assert take(one, 1)[0].value() == b"late"
    assert time.monotonic() - start < 4, "the waiting fetch was not woken"
    one.close()


def test_a_position_beyond_the_end_is_reset(broker, name):
    create(broker, name)
    send(producer(broker), name, [(None, b"a"), (None, b"b")])
    one = consumer(broker, name)
    one.assign([TopicPartition(name, 0, 1000)])
    assert [m.value() for m in take(one, 2)] == [b"a", b"b"]
    one.close()
