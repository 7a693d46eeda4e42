"""What is acknowledged or committed is there after a restart and after kill -9."""

import pytest
from confluent_kafka import TopicPartition

from kit import consumer, create, producer, read_all, send, take


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_messages_and_committed_offsets_survive(own_broker, name, end):
    create(own_broker, name, 3)
    sent = [(f"{n}".encode(), f"{n}".encode() * 100) for n in range(1000)]
    by = producer(own_broker, enable_idempotence=True)
    reports = send(by, name, sent)
    one = consumer(own_broker, name)
    one.assign([TopicPartition(name, 0, 0)])
    take(one, 5)
    one.commit(offsets=[TopicPartition(name, 0, 5)], asynchronous=False)

    getattr(own_broker, end)()
    own_broker.start()

    stored = read_all(own_broker, name, 3)
    assert {(m.partition(), m.offset()): m.value() for messages in stored.values() for m in messages} == \
        {(r.partition(), r.offset()): value for r, (_, value) in zip(reports, sent)}
    # Both clients lived through it and go on.
    assert one.committed([TopicPartition(name, 0)], timeout=60)[0].offset == 5
    report = send(by, name, [(b"after", b"after")])[0]
    assert report.offset() == len(stored[report.partition()])
    one.close()


def test_a_producer_at_work_loses_nothing_acknowledged_when_the_broker_is_killed(own_broker, name):
    create(own_broker, name)
    acknowledged = []
    by = producer(own_broker, enable_idempotence=True, linger_ms=1, message_timeout_ms=60000)
    for round_ in range(3):
        for n in range(500):
            value = f"{round_}-{n}".encode()
            by.produce(name, value, on_delivery=lambda error, m: error or acknowledged.append((m.offset(), m.value())))
            by.poll(0)
        own_broker.kill()
        own_broker.start()
    assert by.flush(60) == 0
    stored = [(m.offset(), m.value()) for m in read_all(own_broker, name)[0]]
    assert sorted(acknowledged) == stored, "idempotent: each message once, in order"
    assert [value for _, value in stored] == [f"{r}-{n}".encode() for r in range(3) for n in range(500)]
