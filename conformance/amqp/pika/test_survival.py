"""What is confirmed or durable is there after a restart and after kill -9."""

import pika
import pytest

from kit import PERSISTENT, Inbox, connect, count, get, put


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_persistent_messages_and_durable_things_survive(own_broker, name, end):
    one = connect(own_broker)
    channel = one.channel()
    channel.confirm_delivery()
    channel.exchange_declare(name, "direct", durable=True)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "k")
    put(channel, "k", *[b"%d" % n for n in range(200)], exchange=name, properties=PERSISTENT)

    getattr(own_broker, end)()
    own_broker.start()

    channel = connect(own_broker).channel()
    assert count(channel, name) == 200
    inbox = Inbox(channel, name)
    inbox.wait(200)
    assert inbox.bodies == [b"%d" % n for n in range(200)]
    channel.basic_ack(200, multiple=True)
    channel.confirm_delivery()
    put(channel, "k", b"after", exchange=name, properties=PERSISTENT)
    assert inbox.wait(201)[200][2] == b"after"


def test_what_is_not_durable_does_not_survive(own_broker, name):
    channel = connect(own_broker).channel()
    channel.exchange_declare(name)
    channel.queue_declare(name)
    put(channel, name, b"x", properties=PERSISTENT)
    assert count(channel, name) == 1
    own_broker.stop()
    own_broker.start()
    one = connect(own_broker)
    for gone in [lambda: one.channel().queue_declare(name, passive=True),
                 lambda: one.channel().exchange_declare(name, passive=True)]:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            gone()
        assert closed.value.reply_code == 404


def test_unacknowledged_messages_are_redelivered_after_a_kill(own_broker, name):
    channel = connect(own_broker).channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    put(channel, name, *[b"%d" % n for n in range(10)], properties=PERSISTENT)
    channel.basic_qos(prefetch_count=5)
    inbox = Inbox(channel, name)
    inbox.wait(5)
    channel.basic_ack(inbox.got[0][0].delivery_tag)
    # The answer to a later question: the ack has arrived.
    assert count(channel, name) in (4, 5)
    own_broker.kill()
    own_broker.start()
    channel = connect(own_broker).channel()
    inbox = Inbox(channel, name)
    inbox.wait(9)
    assert inbox.bodies == [b"%d" % n for n in range(1, 10)]
    assert all(method.redelivered for method, _, _ in inbox.got[:4])
    channel.basic_ack(0, multiple=True)
