"""Short words for what most tests here do with kafka-python."""

import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition


def admin(broker):
    return KafkaAdminClient(bootstrap_servers=broker.kafka)


def create(broker, topic, partitions=1, config=None, replicas=1, **options):
    by = admin(broker)
    try:
        wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": config or {}}
        return by.create_topics({topic: wanted}, **options)
    finally:
        by.close()


def producer(broker, **config):
    return KafkaProducer(**({"bootstrap_servers": broker.kafka, "acks": "all"} | config))


def send(by, topic, messages):
    """Sends (key, value) pairs; answers their places, in order of sending."""
    waiting = [by.send(topic, value=value, key=key) for key, value in messages]
    by.flush(60)
    return [one.get(timeout=60) for one in waiting]


def consumer(broker, *topics, group=None, **config):
    settings = {"bootstrap_servers": broker.kafka, "group_id": group, "auto_offset_reset": "earliest",
                "enable_auto_commit": False, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    return KafkaConsumer(*topics, **(settings | config))


def take(by, count, seconds=60):
    """Polls until `count` messages have come."""
    got = []
    end = time.monotonic() + seconds
    while len(got) < count:
        assert time.monotonic() < end, f"{len(got)} of {count} messages within {seconds} s"
        for messages in by.poll(timeout_ms=200).values():
            got += messages
    return got


def read_all(broker, topic, partitions=1):
    """Everything in the topic from its start, by partition, without a group."""
    one = consumer(broker)
    try:
        places = [TopicPartition(topic, p) for p in range(partitions)]
        one.assign(places)
        one.seek_to_beginning(*places)
        ends = one.end_offsets(places)
        starts = one.beginning_offsets(places)
        got = take(one, sum(ends[p] - starts[p] for p in places))
    finally:
        one.close()
    return {p: [m for m in got if m.partition == p] for p in range(partitions)}
