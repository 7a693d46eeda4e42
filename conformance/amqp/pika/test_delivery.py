"""Deliveries, acknowledgements, order, confirms."""

import socket

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from fourfold import eventually
from kit import Inbox, connect, count, get, put


def test_messages_are_delivered_in_order_and_acknowledged(channel, name):
    channel.queue_declare(name)
    put(channel, name, *[b"%d" % n for n in range(100)])
    inbox = Inbox(channel, name)
    inbox.wait(100)
    assert inbox.bodies == [b"%d" % n for n in range(100)]
    assert [method.delivery_tag for method, _, _ in inbox.got] == list(range(1, 101))
    channel.basic_ack(100, multiple=True)
    channel.basic_cancel(inbox.tag)
    assert count(channel, name) == 0


def test_unacknowledged_messages_come_back_when_their_channel_goes(connection, name):
    one = connection.channel()
    one.queue_declare(name)
    put(one, name, b"1", b"2", b"3")
    inbox = Inbox(one, name)
    inbox.wait(3)
    one.basic_ack(inbox.got[1][0].delivery_tag)
    one.close()
    two = connection.channel()
    back = [get(two, name), get(two, name)]
    assert [(method.redelivered, body) for method, _, body in back] == [(True, b"1"), (True, b"3")]


def test_requeued_messages_take_their_old_places(channel, name):
    channel.queue_declare(name)
    channel.basic_qos(prefetch_count=5)
    put(channel, name, *[b"m%d" % n for n in range(1, 7)])
    inbox = Inbox(channel, name)
    inbox.wait(5)
    assert inbox.bodies == [b"m1", b"m2", b"m3", b"m4", b"m5"]
    channel.basic_nack(3, multiple=True, requeue=True)
    again = inbox.wait(8)[5:]
    assert [(method.redelivered, body) for method, _, body in again] == [(True, b"m1"), (True, b"m2"), (True, b"m3")]
    inbox.stays(8)
    channel.basic_ack(0, multiple=True)
    method, _, body = inbox.wait(9)[8]
    assert (method.redelivered, body) == (False, b"m6")
    channel.basic_ack(method.delivery_tag)


def test_a_rejected_message_is_dropped_or_comes_back(channel, name):
    channel.queue_declare(name)
    put(channel, name, b"back", b"gone")
    first = get(channel, name)[0]
    second = get(channel, name)[0]
    channel.basic_reject(second.delivery_tag, requeue=False)
    channel.basic_reject(first.delivery_tag, requeue=True)
    method, _, body = get(channel, name)
    assert (method.redelivered, body) == (True, b"back")
    channel.basic_ack(method.delivery_tag)
    assert count(channel, name) == 0


def test_prefetch_bounds_each_consumer(channel, name):
    channel.queue_declare(name)
    put(channel, name, *[b"x"] * 10)
    channel.basic_qos(prefetch_count=2)
    one, two = Inbox(channel, name), Inbox(channel, name)
    one.wait(2)
    two.wait(2)
    one.stays(2)
    two.stays(2)
    channel.basic_ack(one.got[0][0].delivery_tag)
    one.wait(3)
    one.stays(3)
    two.stays(2)


def test_global_prefetch_bounds_the_channel(channel, name):
    channel.queue_declare(name)
    put(channel, name, *[b"x"] * 10)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    one, two = Inbox(channel, name), Inbox(channel, name)
    eventually("three are out", lambda: channel.connection.process_data_events(time_limit=0.1) or
               len(one.got) + len(two.got) == 3)
    one.stays(len(one.got))
    assert len(one.got) + len(two.got) == 3
    channel.basic_ack(0, multiple=True)
    eventually("three more are out", lambda: channel.connection.process_data_events(time_limit=0.1) or
               len(one.got) + len(two.got) == 6)


def test_consumers_of_a_queue_take_turns(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    one, two = Inbox(channel, name), Inbox(channel, name)
    put(channel, name, *[b"%d" % n for n in range(20)])
    eventually("all are out", lambda: connection.process_data_events(time_limit=0.1) or
               len(one.got) + len(two.got) == 20)
    assert len(one.got) == len(two.got) == 10
    channel.basic_ack(0, multiple=True)


def test_an_exclusive_consumer_is_alone(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    Inbox(channel, name, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        Inbox(connection.channel(), name)
    assert closed.value.reply_code == 403 and "in exclusive use" in closed.value.reply_text
    channel.queue_delete(name)


def test_a_second_ack_closes_the_channel_and_returns_the_rest(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    put(channel, name, b"1", b"2")
    get(channel, name)
    get(channel, name)
    channel.basic_ack(1)
    channel.basic_ack(1)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, passive=True)
    assert closed.value.reply_code == 406
    assert closed.value.reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"
    fresh = connection.channel()
    fresh.basic_ack(0, multiple=True)
    method, _, body = get(fresh, name)
    assert (method.redelivered, body) == (True, b"2")
    fresh.basic_ack(method.delivery_tag)
    fresh.basic_ack(0)
    with pytest.raises(ChannelClosedByBroker):
        fresh.queue_declare(name, passive=True)


def test_consumers_hear_when_their_queue_is_deleted(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)
    inbox = Inbox(channel, name)
    other = connection.channel()
    other.queue_delete(name)
    eventually("the cancel has come", lambda: connection.process_data_events(time_limit=0.1) or cancelled)
    assert cancelled[0].method.consumer_tag == inbox.tag
    channel.basic_cancel(inbox.tag)
    assert channel.is_open
    assert other.queue_delete(name).method.message_count == 0


def test_confirms_come_for_every_message(channel, name):
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    for n in range(100):
        put(channel, name, b"%d" % n, properties=pika.BasicProperties(delivery_mode=1 + n % 2))
    assert count(channel, name) == 100


def test_an_unroutable_mandatory_message_is_returned_before_its_ack(channel, name):
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("", name, b"lost", mandatory=True)
    returned = unroutable.value.messages[0]
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.routing_key, returned.body) == (name, b"lost")
    channel.basic_publish("", name, b"lost")
    assert channel.is_open


def test_recover_brings_all_unacknowledged_back(channel, name):
    channel.queue_declare(name)
    put(channel, name, b"1", b"2")
    inbox = Inbox(channel, name)
    inbox.wait(2)
    channel.basic_recover(requeue=True)
    again = inbox.wait(4)[2:]
    assert [(method.redelivered, body) for method, _, body in again] == [(True, b"1"), (True, b"2")]


def test_a_lost_connection_gives_its_messages_back(broker, channel, name):
    channel.queue_declare(name)
    put(channel, name, b"1", b"2")
    other = connect(broker)
    inbox = Inbox(other.channel(), name)
    inbox.wait(2)
    # Cut without a word of goodbye.
    other._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    back = [get(channel, name), get(channel, name)]
    assert [(method.redelivered, body) for method, _, body in back] == [(True, b"1"), (True, b"2")]


BAD = [
    (dict(delivery_mode=3), "invalid message: {delivery_mode_unknown,3}"),
    (dict(user_id="other"), "user_id property set to 'other' but authenticated user was 'guest'"),
    (dict(expiration="abc"), "invalid expiration 'abc'"),
    (dict(headers={"CC": "q"}), "CC"),
]


@pytest.mark.parametrize("properties, said", BAD, ids=[next(iter(properties)) for properties, _ in BAD])
def test_a_message_with_bad_properties_closes_its_channel_and_no_other(connection, channel, name, properties, said):
    channel.queue_declare(name)
    bad = connection.channel()
    bad.confirm_delivery()
    put(bad, name, b"good")
    asked = pika.BasicProperties()
    asked.__dict__.update(properties)
    with pytest.raises(ChannelClosedByBroker) as closed:
        put(bad, name, b"bad", properties=asked)
    assert closed.value.reply_code == 406 and said in closed.value.reply_text
    assert get(channel, name, auto_ack=True)[2] == b"good" and count(channel, name) == 0
    channel.queue_delete(name)


def test_a_message_too_large_closes_its_channel_and_no_other(broker, connection, channel, name):
    most = 128 << 20 if "amqp" in broker.peer else 16 << 20
    channel.queue_declare(name)
    bad = connection.channel()
    bad.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as closed:
        put(bad, name, bytes(most + 1))
    text = f"PRECONDITION_FAILED - message size {most + 1} is larger than configured max size {most}"
    assert (closed.value.reply_code, closed.value.reply_text) == (406, text)
    put(channel, name, b"small")
    assert get(channel, name, auto_ack=True)[2] == b"small"
    channel.queue_delete(name)


def test_where_confirms_are_asked_for_a_publish_to_nowhere_closes_the_channel(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    channel.confirm_delivery()
    put(channel, name, b"confirmed")
    with pytest.raises(ChannelClosedByBroker) as closed:
        put(channel, name, b"lost", exchange="nosuch")
    assert (closed.value.reply_code, closed.value.reply_text) == (404, "NOT_FOUND - no exchange 'nosuch' in vhost '/'")
    fresh = connection.channel()
    fresh.confirm_delivery()
    put(fresh, name, b"again")
    assert count(fresh, name) == 2, "what was confirmed is there, and numbers begin anew"
    fresh.queue_delete(name)
