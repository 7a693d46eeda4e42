"""Permissions as Kafka clients meet them: the broker is told whose permissions they have (`--kafka-user`)."""

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from admin import Admin
from fourfold import Broker, eventually


@pytest.fixture
def guarded(name):
    """A broker whose Kafka clients have the permissions of a user: nothing yet."""
    one = Broker("--kafka-user", name)
    try:
        admin = Admin(one.start())
        admin.user(name, "secret")
        one.permit = lambda *patterns: admin.permit("/", name, *patterns)
        yield one
    finally:
        one.close()


def produce(broker, topic):
    producer = KafkaProducer(bootstrap_servers=broker.kafka, max_block_ms=20_000, retries=0)
    try:
        return producer.send(topic, b"x", partition=0).get(timeout=20)
    finally:
        producer.close(timeout=5)


def consume(broker, topic, group=None):
    """The first message of the topic."""
    consumer = KafkaConsumer(bootstrap_servers=broker.kafka, group_id=group, auto_offset_reset="earliest")
    try:
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
        return eventually("a message", lambda: [m for some in consumer.poll(500).values() for m in some])[0].value
    finally:
        consumer.close()


def test_topics_and_groups_need_permissions_that_hold_at_once_and_through_a_kill(guarded):
    with pytest.raises(TopicAuthorizationFailedError):
        produce(guarded, "mine-t")
    guarded.permit("^mine-", "^mine-", "^mine-")
    admin = KafkaAdminClient(bootstrap_servers=guarded.kafka)
    admin.create_topics([NewTopic("mine-t", 1, 1)])
    admin.close()
    produce(guarded, "mine-t")
    assert consume(guarded, "mine-t") == b"x"
    assert consume(guarded, "mine-t", "mine-g") == b"x"
    with pytest.raises(GroupAuthorizationFailedError):
        consume(guarded, "mine-t", "theirs")
    guarded.kill()
    guarded.start()
    with pytest.raises(TopicAuthorizationFailedError):
        produce(guarded, "other")
    guarded.permit("", "", "^mine-t$")
    with pytest.raises(TopicAuthorizationFailedError):
        produce(guarded, "mine-t")
    assert consume(guarded, "mine-t") == b"x"


def test_what_may_not_be_seen_is_not_listed(guarded):
    guarded.permit("^mine-", "", "")
    admin = KafkaAdminClient(bootstrap_servers=guarded.kafka)
    admin.create_topics([NewTopic("mine-t", 1, 1)])
    with pytest.raises(TopicAuthorizationFailedError):
        admin.create_topics([NewTopic("other", 1, 1)])
    guarded.permit("^other$", "", "")
    admin.create_topics([NewTopic("other", 1, 1)])
    assert set(admin.list_topics()) == {"other"}
    admin.close()
