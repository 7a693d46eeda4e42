"""Exchanges of the type of the delayed-message plugin: on time, in the order of their moments, through a stop and a kill."""

import time

import pika
import pytest

from kit import Inbox, connect, put

KIND = "x-delayed-message"


def make(channel, name, kind="direct"):
    channel.exchange_declare(name, KIND, durable=True, arguments={"x-delayed-type": kind})
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "k")


def delayed(ms):
    return pika.BasicProperties(delivery_mode=2, headers={"x-delay": ms})


def test_a_short_delay_does_not_wait_behind_a_long_one(channel, name):
    make(channel, name)
    channel.confirm_delivery()
    inbox = Inbox(channel, name, auto_ack=True)
    begin = time.monotonic()
    # The one of 100 last: each waits for its confirm, and on a slow disk that may take as long.
    for ms in (3000, 0, -5, 100):
        channel.basic_publish(name, "k", b"%d" % ms, delayed(ms), mandatory=True)
    inbox.wait(3)
    assert time.monotonic() - begin >= 0.1
    inbox.wait(4)
    assert time.monotonic() - begin >= 3
    assert inbox.bodies == [b"0", b"-5", b"100", b"3000"]
    assert [properties.headers["x-delay"] for _, properties, _ in inbox.got] == [0, -5, -100, -3000]


@pytest.mark.parametrize("arguments", [None, {"x-delayed-type": "nothing"}, {"x-delayed-type": 1}])
def test_an_exchange_must_say_how_it_routes_in_the_end(channel, name, arguments):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.exchange_declare(name, KIND, arguments=arguments)
    assert closed.value.reply_code == 406


def test_a_second_declaration_must_ask_for_the_same(channel, name):
    make(channel, name)
    make(channel, name)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.exchange_declare(name, "direct", durable=True)
    assert closed.value.reply_code == 406
    assert "received 'direct' but current is 'x-delayed-message'" in closed.value.reply_text


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_confirmed_comes_after_a_restart(own_broker, name, end):
    channel = connect(own_broker).channel()
    make(channel, name)
    channel.confirm_delivery()
    for ms in (4000, 2000, 1):
        put(channel, "k", b"%d" % ms, exchange=name, properties=delayed(ms))
    getattr(own_broker, end)()
    own_broker.start()
    channel = connect(own_broker).channel()
    inbox = Inbox(channel, name, auto_ack=True)
    inbox.wait(3)
    assert inbox.bodies == [b"1", b"2000", b"4000"]
    inbox.stays(3)


def late(inbox, begin):
    inbox.wait(1)
    assert time.monotonic() - begin >= 0.3
    assert [(body, properties.headers["x-delay"]) for _, properties, body in inbox.got] == [(b"x", -300)]


def test_what_comes_by_a_binding_between_exchanges_waits(channel, name):
    make(channel, name)
    channel.exchange_declare(name + "-first", "fanout")
    channel.exchange_bind(name, name + "-first")
    channel.queue_declare(name + "-now")
    channel.queue_bind(name + "-now", name + "-first")
    channel.confirm_delivery()
    begin = time.monotonic()
    channel.basic_publish(name + "-first", "k", b"x", delayed(300), mandatory=True)
    assert channel.basic_get(name + "-now", True)[2] == b"x"
    late(Inbox(channel, name, auto_ack=True), begin)


def test_what_comes_as_alternate_waits(channel, name):
    make(channel, name)
    channel.exchange_declare(name + "-first", "direct", arguments={"alternate-exchange": name})
    begin = time.monotonic()
    put(channel, "k", b"x", exchange=name + "-first", properties=delayed(300))
    late(Inbox(channel, name, auto_ack=True), begin)


def test_a_dead_letter_waits(channel, name):
    make(channel, name)
    arguments = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": "k"}
    channel.queue_declare(name + "-source", durable=True, arguments=arguments)
    put(channel, name + "-source", b"x", properties=delayed(300))
    tag = channel.basic_get(name + "-source")[0].delivery_tag
    begin = time.monotonic()
    channel.basic_reject(tag, requeue=False)
    inbox = Inbox(channel, name, auto_ack=True)
    late(inbox, begin)
    assert inbox.got[0][1].headers["x-death"][0]["reason"] == "rejected"


def test_a_delay_in_a_transaction_begins_with_the_commit(channel, name):
    make(channel, name)
    channel.tx_select()
    put(channel, "k", b"taken back", exchange=name, properties=delayed(1))
    channel.tx_rollback()
    put(channel, "k", b"x", exchange=name, properties=delayed(300))
    time.sleep(0.4)  # longer than the delay: it has not begun
    begin = time.monotonic()
    channel.tx_commit()
    late(Inbox(channel, name, auto_ack=True), begin)


def test_what_waits_goes_with_its_exchange(channel, name):
    make(channel, name)
    put(channel, "k", b"first", exchange=name, properties=delayed(200))
    channel.exchange_delete(name)
    make(channel, name)
    put(channel, "k", b"second", exchange=name, properties=delayed(400))
    inbox = Inbox(channel, name, auto_ack=True)
    inbox.wait(1)
    assert inbox.bodies == [b"second"]
