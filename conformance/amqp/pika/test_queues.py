"""Queues, exchanges, and the words in which the broker refuses: libraries and people match on the texts."""

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from fourfold import eventually
from kit import Inbox, connect, count, get, put


def refused(act, code, text):
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as closed:
        act()
    assert closed.value.reply_code == code, closed.value
    assert text in closed.value.reply_text, closed.value


def test_the_server_says_what_it_can(connection):
    properties = connection._impl.server_properties
    assert properties["product"] == "RabbitMQ"
    for wanted in ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close"]:
        assert properties["capabilities"][wanted] is True


def test_a_message_comes_back_with_all_its_properties(channel, name):
    channel.queue_declare(name)
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=3, correlation_id="c-1",
        reply_to="there", message_id="m-1", timestamp=1_600_000_000, type="kind", user_id="guest",
        app_id="judge", headers={"int": 7, "text": "x", "yes": True, "list": [1, "a"], "table": {"in": None}})
    put(channel, name, b"hello", properties=sent)
    method, properties, body = get(channel, name)
    assert body == b"hello"
    assert (method.exchange, method.routing_key, method.redelivered, method.message_count) == ("", name, False, 0)
    assert vars(properties) == vars(sent)


@pytest.mark.parametrize("size", [0, 1, 131072 - 8, 131072, 1_000_000])
def test_bodies_of_any_size_come_back(channel, name, size):
    channel.queue_declare(name)
    body = bytes(n % 251 for n in range(size))
    put(channel, name, body, b"next")
    assert get(channel, name)[2] == body
    assert get(channel, name)[2] == b"next"


def test_unset_headers_stay_unset_and_empty_ones_empty(channel, name):
    channel.queue_declare(name)
    put(channel, name, b"", properties=pika.BasicProperties())
    put(channel, name, b"", properties=pika.BasicProperties(headers={}))
    assert get(channel, name)[1].headers is None
    assert get(channel, name)[1].headers == {}


def test_an_empty_name_is_replaced_by_the_server(channel):
    one = channel.queue_declare("").method.queue
    two = channel.queue_declare("").method.queue
    assert one.startswith("amq.gen-") and one != two
    channel.queue_delete(one)
    channel.queue_delete(two)


@pytest.mark.parametrize("kind, keys, hits", [
    ("direct", ["a", "b"], {"a": 1, "b": 1, "c": 0, "a.b": 0}),
    ("fanout", [""], {"a": 1, "": 1}),
])
def test_exchanges_route_by_their_kind(channel, name, kind, keys, hits):
    channel.exchange_declare(name, kind)
    channel.queue_declare(name)
    for key in keys:
        channel.queue_bind(name, name, key)
    for key, wanted in hits.items():
        put(channel, key, b"x", exchange=name)
        eventually(f"{kind} {key}", lambda: count(channel, name) == wanted)
        channel.queue_purge(name)
    channel.exchange_delete(name)


def test_a_message_is_put_once_into_a_queue_that_matches_twice(channel, name):
    channel.exchange_declare(name, "fanout")
    channel.queue_declare(name)
    channel.queue_bind(name, name, "a")
    channel.queue_bind(name, name, "b")
    channel.confirm_delivery()
    put(channel, "a.b", b"x", exchange=name)
    assert count(channel, name) == 1
    channel.queue_unbind(name, name, "a")
    put(channel, "a.b", b"x", exchange=name)
    assert count(channel, name) == 2
    channel.queue_unbind(name, name, "b")
    put(channel, "a.b", b"x", exchange=name)
    assert count(channel, name) == 2
    channel.exchange_delete(name)


def test_purge_and_delete_say_how_many(channel, name):
    channel.queue_declare(name)
    channel.confirm_delivery()
    put(channel, name, b"1", b"2", b"3")
    assert channel.queue_purge(name).method.message_count == 3
    put(channel, name, b"4")
    assert channel.queue_delete(name).method.message_count == 1
    assert channel.queue_delete(name).method.message_count == 0, "what is not there can be deleted"
    channel.exchange_delete(name + "-not-there")


def test_an_exchange_stores_a_message_once_and_every_queue_has_it(channel, name):
    channel.exchange_declare(name, "direct")
    queues = [f"{name}-{n}" for n in range(5)]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, name, "k")
    channel.confirm_delivery()
    put(channel, "k", b"1", b"2", exchange=name)
    for queue in queues:
        assert [get(channel, queue)[2], get(channel, queue)[2]] == [b"1", b"2"]
        channel.queue_delete(queue)
    channel.exchange_delete(name)


def test_what_would_change_a_topics_log_is_refused_by_name_and_never_ignored(broker, name):
    if broker.peer:
        pytest.skip("the peer serves it")

    def act(work):
        connection = connect(broker)
        try:
            work(connection.channel())
        finally:
            if connection.is_open:
                connection.close()
    # A queue over a topic takes no argument that would change the topic's log.
    for argument, value in {"x-message-ttl": 1000, "x-max-length": 5, "x-max-length-bytes": 5,
                            "x-max-priority": 5}.items():
        over = {"x-topic": name, argument: value}
        refused(lambda: act(lambda channel: channel.queue_declare(name, durable=True, arguments=over)), 406, argument)


def test_what_is_not_there_is_404(connection, name):
    texts = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    refused(lambda: connection.channel().queue_declare(name, passive=True), 404, texts)
    refused(lambda: connection.channel().basic_get(name), 404, texts)
    refused(lambda: Inbox(connection.channel(), name), 404, texts)
    refused(lambda: connection.channel().queue_purge(name), 404, texts)
    exchange = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    refused(lambda: connection.channel().exchange_declare(name, passive=True), 404, exchange)

    def publish():
        channel = connection.channel()
        channel.confirm_delivery()
        put(channel, "k", b"x", exchange=name)
    refused(publish, 404, exchange)


def test_another_declaration_must_be_equal(connection, name):
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    assert channel.queue_declare(name, durable=True).method.queue == name
    refused(lambda: connection.channel().queue_declare(name, durable=False), 406,
            f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': "
            "received 'false' but current is 'true'")
    channel.exchange_declare(name, "direct")
    refused(lambda: connection.channel().exchange_declare(name, "fanout"), 406,
            f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
            "received 'fanout' but current is 'direct'")
    channel.exchange_delete(name)
    channel.queue_delete(name)


def test_an_exclusive_queue_is_its_connections_alone(broker, connection, name):
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    other = connect(broker)
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'"
    refused(lambda: other.channel().queue_declare(name, durable=True), 405, text)
    refused(lambda: other.channel().queue_declare(name, passive=True), 405, text)
    refused(lambda: other.channel().basic_get(name), 405, text)
    refused(lambda: connection.channel().queue_declare(name, exclusive=False), 405, text)
    connection.close()

    def declared():
        try:
            return other.channel().queue_declare(name)
        except ChannelClosedByBroker:
            return None
    eventually("it has gone with its connection", declared)
    other.channel().queue_delete(name)
    other.close()


def test_reserved_and_system_names_are_refused(connection):
    refused(lambda: connection.channel().queue_declare("amq.mine"), 403,
            "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
    refused(lambda: connection.channel().exchange_delete("amq.direct"), 403,
            "deletion of system exchange 'amq.direct' in vhost '/' not allowed")
    channel = connection.channel()
    channel.queue_declare("system-names")
    refused(lambda: channel.queue_bind("system-names", "", "k"), 403, "operation not permitted on the default exchange")
    connection.channel().queue_delete("system-names")


def test_if_unused_and_if_empty_are_minded(connection, name):
    channel = connection.channel()
    channel.queue_declare(name)
    channel.confirm_delivery()
    put(channel, name, b"x")
    refused(lambda: connection.channel().queue_delete(name, if_empty=True), 406, "not empty")
    inbox = Inbox(channel, name)
    refused(lambda: connection.channel().queue_delete(name, if_unused=True), 406, "in use")
    inbox.wait(1)
    channel.queue_delete(name)


def test_an_auto_delete_queue_goes_after_its_last_consumer(connection, name):
    channel = connection.channel()
    channel.queue_declare(name, auto_delete=True)
    assert count(channel, name) == 0
    inbox = Inbox(channel, name)
    channel.basic_cancel(inbox.tag)
    refused(lambda: connection.channel().queue_declare(name, passive=True), 404, "no queue")


def test_a_wrong_password_and_a_missing_vhost_are_refused(broker):
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, credentials=wrong)
    with pytest.raises((ConnectionClosedByBroker, pika.exceptions.ProbableAccessDeniedError)):
        connect(broker, virtual_host="nope")
