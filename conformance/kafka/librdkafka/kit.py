"""Short words for what most tests here do with librdkafka."""

import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def admin(broker):
    return AdminClient({"bootstrap.servers": broker.kafka})


def create(broker, topic, partitions=1, config=None, replicas=1):
    by = admin(broker)
    by.create_topics([NewTopic(topic, partitions, replicas, config=config or {})])[topic].result(timeout=30)


def delete(broker, topic):
    by = admin(broker)
    by.delete_topics([topic])[topic].result(timeout=30)


def producer(broker, **config):
    settings = {"bootstrap.servers": broker.kafka, "partitioner": "murmur2_random", "acks": "all"}
    return Producer(settings | {key.replace("_", "."): value for key, value in config.items()})


def send(by, topic, messages):
    """Sends (key, value) pairs; answers the reports of all, in order of sending. Fails when one failed."""
    reports = [None] * len(messages)

    def report(at):
        def keep(error, message):
            assert error is None, error
            reports[at] = message
        return keep

    for at, (key, value) in enumerate(messages):
        by.produce(topic, value, key, on_delivery=report(at))
    assert by.flush(60) == 0, "not everything was acknowledged"
    assert all(reports)
    return reports


def consumer(broker, group, **config):
    settings = {"bootstrap.servers": broker.kafka, "group.id": group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "session.timeout.ms": 6000}
    return Consumer(settings | {key.replace("_", "."): value for key, value in config.items()})


def take(by, count, seconds=60):
    """Polls until `count` messages have come."""
    got = []
    end = time.monotonic() + seconds
    while len(got) < count:
        assert time.monotonic() < end, f"{len(got)} of {count} messages within {seconds} s"
        message = by.poll(0.2)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF or message.error().retriable(), message.error()
            continue
        got.append(message)
    return got


def read_all(broker, topic, partitions=1):
    """Everything in the topic from its start, by partition, without a group."""
    one = consumer(broker, "reads-without-group")
    try:
        ends = {p: one.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in range(partitions)}
        one.assign([TopicPartition(topic, p, low) for p, (low, _) in ends.items()])
        got = take(one, sum(high - low for low, high in ends.values()))
    finally:
        one.close()
    return {p: [m for m in got if m.partition() == p] for p in range(partitions)}
