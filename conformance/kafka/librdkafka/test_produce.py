"""What librdkafka's producer is promised."""

import pytest
from confluent_kafka import KafkaException, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from fourfold import eventually
from kit import admin, consumer, create, delete, producer, read_all, send, take
from proxy import LossyProxy


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_come_back_as_sent_in_each_codec(broker, name, codec):
    create(broker, name)
    sent = [(f"key-{n}".encode(), f"value {n} ".encode() * 50) for n in range(100)]
    send(producer(broker, compression_type=codec, linger_ms=50), name, sent)
    got = read_all(broker, name)[0]
    assert [(m.key(), m.value()) for m in got] == sent
    assert [m.offset() for m in got] == list(range(100))


def test_headers_time_and_null_values_come_back(broker, name):
    create(broker, name)
    by = producer(broker)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    by.produce(name, None, b"tombstone", headers=headers, timestamp=1_600_000_000_123)
    by.produce(name, b"", None)
    assert by.flush(30) == 0
    first, second = read_all(broker, name)[0]
    assert (first.key(), first.value(), first.headers()) == (b"tombstone", None, headers)
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_600_000_000_123)
    assert (second.key(), second.value()) == (None, b"")


def test_keys_choose_the_partitions_that_java_would_choose(broker, name):
    create(broker, name, 10)
    keys = ["order-1", "order-2", "abc"]
    reports = send(producer(broker), name, [(key.encode(), b"x") for key in keys])
    assert [report.partition() for report in reports] == [6, 3, 7]


def test_messages_of_one_partition_keep_their_order(broker, name):
    create(broker, name, 3)
    sent = [(f"{n % 7}".encode(), f"{n}".encode()) for n in range(5000)]
    send(producer(broker, enable_idempotence=True), name, sent)
    by_key = {}
    for messages in read_all(broker, name, 3).values():
        for message in messages:
            by_key.setdefault(message.key(), []).append(int(message.value()))
    assert by_key == {f"{k}".encode(): list(range(k, 5000, 7)) for k in range(7)}


def test_lost_answers_make_no_second_copy_for_an_idempotent_producer(broker, name):
    create(broker, name)
    proxy = LossyProxy(broker.kafka_port)
    try:
        by = producer(broker, bootstrap_servers=proxy.address, enable_idempotence=True, retry_backoff_ms=50)
        send(by, name, [(None, b"warm")])
        for round_ in range(3):
            proxy.lose_produce_answers(1)
            send(by, name, [(None, f"{round_}-{n}".encode()) for n in range(20)])
        assert proxy.lost == 3
    finally:
        proxy.close()
    got = [m.value() for m in read_all(broker, name)[0]]
    assert got == [b"warm"] + [f"{r}-{n}".encode() for r in range(3) for n in range(20)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_level_of_acks_stores(broker, name, acks):
    create(broker, name)
    send(producer(broker, acks=acks), name, [(None, b"a"), (None, b"b")])
    one = consumer(broker, name)
    one.subscribe([name])
    assert [m.value() for m in take(one, 2)] == [b"a", b"b"]
    one.close()


def test_the_report_tells_whose_time_a_message_has(broker, name):
    create(broker, name)
    report = send(producer(broker), name, [(None, b"x")])[0]
    stored = read_all(broker, name)[0][0]
    assert report.timestamp()[0] == TIMESTAMP_CREATE_TIME
    assert stored.timestamp() == report.timestamp()
    create(broker, name + "-append", config={"message.timestamp.type": "LogAppendTime"})
    by = producer(broker)
    reports = []
    by.produce(name + "-append", b"x", timestamp=1000, on_delivery=lambda error, message: reports.append((error, message)))
    assert by.flush(30) == 0
    (error, report), = reports
    assert error is None
    stored = read_all(broker, name + "-append")[0][0]
    assert report.timestamp()[0] == stored.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    assert report.timestamp() == stored.timestamp() and stored.timestamp()[1] > 1_600_000_000_000


def test_an_unknown_topic_is_made_when_first_used(broker, name):
    send(producer(broker), name, [(None, b"first")])
    assert [m.value() for m in read_all(broker, name)[0]] == [b"first"]


def test_a_message_too_large_is_refused_and_the_next_one_taken(broker, name):
    create(broker, name, config={"max.message.bytes": "10000"})
    by = producer(broker, message_max_bytes=2_000_000)
    failures = []
    by.produce(name, b"x" * 100_000, on_delivery=lambda error, _: failures.append(error))
    assert by.flush(30) == 0
    assert failures[0].name() == "MSG_SIZE_TOO_LARGE"
    send(by, name, [(None, b"small")])
    assert [m.value() for m in read_all(broker, name)[0]] == [b"small"]


@pytest.mark.parametrize("replicas, config, wanted", [
    (3, {}, "INVALID_REPLICATION_FACTOR"),
    (1, {"retention.ms": "abc"}, "INVALID_CONFIG"),
    (1, {"no.such.setting": "1"}, "INVALID_CONFIG"),
])
def test_a_topic_that_cannot_be_is_refused_with_its_reason(broker, name, replicas, config, wanted):
    with pytest.raises(KafkaException) as refused:
        create(broker, name, config=config, replicas=replicas)
    assert refused.value.args[0].name() == wanted
    assert refused.value.args[0].str()


def test_a_deleted_topic_comes_back_empty(broker, name):
    create(broker, name)
    send(producer(broker), name, [(None, b"old")])
    delete(broker, name)
    eventually("the topic is gone", lambda: name not in admin(broker).list_topics(timeout=10).topics)
    create(broker, name)
    send(producer(broker), name, [(None, b"new")])
    assert [(m.offset(), m.value()) for m in read_all(broker, name)[0]] == [(0, b"new")]


def test_a_transactional_producer_is_told_at_once_that_there_are_no_transactions(broker):
    by = producer(broker, transactional_id="orders")
    with pytest.raises(KafkaException, match="transactions are not served yet") as refusal:
        by.init_transactions(60)
    assert refusal.value.args[0].fatal()
