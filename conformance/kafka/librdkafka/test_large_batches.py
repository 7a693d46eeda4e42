"""Compressed batches that unpack to megabytes: the broker looks into them aside, and nobody notices but by the time."""

import pytest

from kit import consumer, create, producer, read_all, take

CODECS = ["gzip", "snappy", "lz4", "zstd"]
LARGE = {"max.message.bytes": str(16 << 20)}


def large(broker, codec):
    """Puts all that comes within a while into one batch of some ten megabytes."""
    return producer(broker, enable_idempotence=True, compression_type=codec, linger_ms=300, batch_size=16 << 20,
                    batch_num_messages=100_000, message_max_bytes=16 << 20, queue_buffering_max_kbytes=200_000)


def value(n):
    return f"{n} of a large batch ".encode() * 50


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_keep_their_order_through_a_kill(own_broker, name, codec):
    create(own_broker, name, config=LARGE)
    acknowledged = []
    by = large(own_broker, codec)
    for round_ in range(3):
        for n in range(10_000):
            by.produce(name, value(round_ * 10_000 + n),
                       on_delivery=lambda error, m: error or acknowledged.append((m.offset(), m.value())))
            by.poll(0)
        if round_ < 2:
            by.poll(0.5)  # it may be just then that a batch is looked into
            own_broker.kill()
            own_broker.start()
    assert by.flush(60) == 0
    stored = [(m.offset(), m.value()) for m in read_all(own_broker, name)[0]]
    assert stored == sorted(acknowledged), "each once, in order"
    assert [one for _, one in stored] == [value(n) for n in range(30_000)]


@pytest.mark.parametrize("codec", CODECS)
def test_others_produce_and_consume_while_large_batches_come(broker, name, codec):
    create(broker, name + "-large", 2, config=LARGE)
    create(broker, name)
    by, other, one = large(broker, codec), producer(broker, linger_ms=0), consumer(broker, name)
    one.subscribe([name])
    for n in range(40_000):
        by.produce(name + "-large", value(n), str(n % 2).encode())
        if n % 400 == 0:
            other.produce(name, str(n).encode())
            other.poll(0)
            by.poll(0)
    assert [m.value() for m in take(one, 100)] == [str(n).encode() for n in range(0, 40_000, 400)]
    assert other.flush(60) == 0 and by.flush(60) == 0
    one.close()
    stored = read_all(broker, name + "-large", 2)
    assert sum(len(messages) for messages in stored.values()) == 40_000
    for messages in stored.values():
        numbers = [int(m.value().split()[0]) for m in messages]
        assert numbers == sorted(numbers)
