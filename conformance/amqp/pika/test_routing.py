"""Exchanges of every kind, copies, transactions, direct answers (features R4, R7, R10; cases A11, A12)."""

import pika
import pytest

from kit import PERSISTENT, Inbox, connect, count, get, put


def refused(connection, act):
    """The code and text with which `act` on a new channel closes it."""
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        act(channel)
    return closed.value.reply_code, closed.value.reply_text.split(" - ", 1)[1]


def drain(channel, queue):
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2].decode())
    return bodies


def queues(channel, *names):
    for queue in names:
        channel.queue_declare(queue, durable=True)


def test_a_topic_exchange_takes_words_by_pattern(channel, name):
    channel.exchange_declare(name, "topic", durable=True)
    patterns = ["a.*.c", "a.#", "#.c", "#", "*", "p.*.#"]
    for pattern in patterns:
        queues(channel, f"{name} {pattern}")
        channel.queue_bind(f"{name} {pattern}", name, pattern)
    for key in ["a", "a.b", "a.b.c", "a.c", "a..c", "a.b.b.c", "c", "", "p", "p.", "p..", "p.a.b.c"]:
        channel.basic_publish(name, key, key.encode())
    got = {pattern: drain(channel, f"{name} {pattern}") for pattern in patterns}
    assert got == {
        "a.*.c": ["a.b.c", "a..c"],
        "a.#": ["a", "a.b", "a.b.c", "a.c", "a..c", "a.b.b.c"],
        "#.c": ["a.b.c", "a.c", "a..c", "a.b.b.c", "c", "p.a.b.c"],
        "#": ["a", "a.b", "a.b.c", "a.c", "a..c", "a.b.b.c", "c", "", "p", "p.", "p..", "p.a.b.c"],
        "*": ["a", "c", "p"],
        "p.*.#": ["p.", "p..", "p.a.b.c"],
    }


def test_a_thousand_patterns_give_a_message_to_each_queue_once(channel, name):
    queues(channel, f"{name}-1", f"{name}-2")
    channel.exchange_declare(name, "topic")
    for n in range(500):
        channel.queue_bind(f"{name}-1", name, f"k.{n}")
        channel.queue_bind(f"{name}-2", name, f"*.{n}.#" if n % 2 else f"k.{n}.*")
    for key in ["k.7", "k.8", "k.8.x", "z.9", "none"]:
        channel.basic_publish(name, key, key.encode())
    assert drain(channel, f"{name}-1") == ["k.7", "k.8"]
    assert drain(channel, f"{name}-2") == ["k.7", "k.8.x", "z.9"]


@pytest.mark.parametrize("how, takes", [
    ("all", ["both", "both and x"]), ("any", ["one", "both", "both and x"]), (None, ["both", "both and x"]),
    ("all-with-x", ["both and x"]), ("any-with-x", ["one", "both", "both and x", "x"])])
def test_a_headers_exchange_holds_arguments_against_headers(channel, name, how, takes):
    channel.exchange_declare(name, "headers")
    queues(channel, name)
    arguments = {"a": "1", "n": 7, "x-b": True} | ({"x-match": how} if how else {})
    channel.queue_bind(name, name, "ignored", arguments)
    for body, headers in [("none", None), ("one", {"a": "1"}), ("both", {"a": "1", "n": 7}), ("types", {"n": "7"}),
                          ("both and x", {"a": "1", "n": 7, "x-b": True}), ("x", {"x-b": True})]:
        channel.basic_publish(name, "", body, pika.BasicProperties(headers=headers))
    assert drain(channel, name) == takes


def test_a_binding_by_headers_says_how(connection, channel, name):
    channel.exchange_declare(name, "headers")
    queues(channel, name)
    assert refused(connection, lambda ch: ch.queue_bind(name, name, "", {"x-match": "bogus"})) == (
        406, 'Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x')


def test_exchanges_are_bound_in_circles_and_a_queue_gets_one_copy(connection, channel, name):
    for kind in ["direct", "fanout", "topic"]:
        channel.exchange_declare(f"{name}-{kind}", kind, durable=True)
    for source, destination in [("fanout", "topic"), ("topic", "direct"), ("direct", "fanout")]:
        channel.exchange_bind(f"{name}-{destination}", f"{name}-{source}", "k")
    queues(channel, name)
    for kind in ["direct", "fanout", "topic"]:
        channel.queue_bind(name, f"{name}-{kind}", "k")
    for kind in ["direct", "fanout", "topic"]:
        channel.basic_publish(f"{name}-{kind}", "k", kind)
    assert drain(channel, name) == ["direct", "fanout", "topic"]
    channel.exchange_unbind(f"{name}-topic", f"{name}-fanout", "k")
    channel.exchange_unbind(f"{name}-topic", f"{name}-fanout", "k")
    assert refused(connection, lambda ch: ch.exchange_bind("nosuch", f"{name}-topic", "k")) == (
        404, "no exchange 'nosuch' in vhost '/'")
    assert refused(connection, lambda ch: ch.exchange_bind("", f"{name}-topic", "k")) == (
        403, "operation not permitted on the default exchange")


def test_alternate_and_internal_exchanges(connection, channel, name):
    name = name[-20:]  # a reply text ends at 255 bytes
    channel.exchange_declare(f"{name}-rest", "fanout", internal=True)
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": f"{name}-rest"})
    queues(channel, f"{name}-q", f"{name}-r")
    channel.queue_bind(f"{name}-q", name, "known")
    channel.queue_bind(f"{name}-r", f"{name}-rest")
    channel.confirm_delivery()
    for key in ["known", "unknown"]:
        channel.basic_publish(name, key, key, mandatory=True)
    assert drain(channel, f"{name}-q") == ["known"]
    method, _, body = get(channel, f"{name}-r")
    assert (method.exchange, method.routing_key, body) == (name, "unknown", b"unknown")
    assert refused(connection, lambda ch: (ch.confirm_delivery(), ch.basic_publish(f"{name}-rest", "", "x"))) == (
        403, f"cannot publish to internal exchange '{name}-rest' in vhost '/'")
    assert refused(connection, lambda ch: ch.exchange_declare(name, "direct")) == (
        406, f"inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': received none but current is "
             f"the value '{name}-rest' of type 'longstr'")


def test_copies_reach_further_keys_and_blind_ones_are_not_shown(connection, channel, name):
    queues(channel, *[f"{name}-{n}" for n in "123"])
    headers = {"CC": [f"{name}-2"], "BCC": [f"{name}-3"], "other": "kept"}
    put(channel, f"{name}-1", "x", properties=pika.BasicProperties(headers=headers))
    for n in "123":
        method, properties, body = get(channel, f"{name}-{n}")
        assert (method.routing_key, body) == (f"{name}-1", b"x")
        assert properties.headers == {"CC": [f"{name}-2"], "other": "kept"}
    wrong = pika.BasicProperties(headers={"CC": "text"})
    assert refused(connection, lambda ch: (ch.confirm_delivery(), put(ch, f"{name}-1", "x", properties=wrong))) == (
        406, 'invalid message: {unacceptable_type_in_header,"CC",longstr}')


def test_exchanges_and_their_bindings_survive_a_kill(own_broker, name):
    channel = connect(own_broker).channel()
    channel.exchange_declare("from", "topic", durable=True, arguments={"alternate-exchange": "rest"})
    channel.exchange_declare("to", "headers", durable=True)
    channel.exchange_declare("rest", "fanout", durable=True)
    channel.exchange_declare("gone", "fanout")
    queues(channel, "q", "r")
    channel.exchange_bind("to", "from", "k.*")
    channel.queue_bind("q", "to", "", {"x-match": "any", "a": "1"})
    channel.queue_bind("r", "rest")
    own_broker.kill()
    own_broker.start()
    connection = connect(own_broker)
    channel = connection.channel()
    one = pika.BasicProperties(headers={"a": "1"}, delivery_mode=2)
    channel.basic_publish("from", "k.1", "through", one)
    channel.basic_publish("from", "k.1", "not by headers")
    channel.basic_publish("from", "other", "rest")
    assert (drain(channel, "q"), drain(channel, "r")) == (["through"], ["rest"])
    assert refused(connection, lambda ch: ch.exchange_declare("gone", passive=True)) == (
        404, "no exchange 'gone' in vhost '/'")
    connection.close()


def test_a_transaction_counts_from_its_commit_on(connection, channel, name):
    queues(channel, name)
    put(channel, name, "1", "2", properties=PERSISTENT)
    other = connection.channel()
    channel.tx_select()
    first = get(channel, name)
    channel.basic_ack(first[0].delivery_tag)
    put(channel, name, "3", properties=PERSISTENT)
    assert count(other, name) == 1
    channel.tx_rollback()
    put(channel, name, "4", properties=PERSISTENT)
    channel.basic_ack(first[0].delivery_tag)
    channel.tx_commit()
    channel.close()
    assert drain(other, name) == ["2", "4"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_committed_transaction_survives_whole_and_an_open_one_leaves_nothing(own_broker, end):
    channel = connect(own_broker).channel()
    queues(channel, "work", "done")
    put(channel, "work", "1", "2", properties=PERSISTENT)
    channel.tx_select()
    for body in [b"1", b"2"]:
        taken = get(channel, "work")
        assert taken[2] == body
        put(channel, "done", body, properties=PERSISTENT)
        channel.basic_ack(taken[0].delivery_tag)
        if body == b"1":
            channel.tx_commit()
    getattr(own_broker, end)()
    own_broker.start()
    channel = connect(own_broker).channel()
    assert (drain(channel, "work"), drain(channel, "done")) == (["2"], ["1"])


def test_transactions_and_confirms_are_not_mixed(connection):
    assert refused(connection, lambda ch: (ch.tx_select(), ch.confirm_delivery())) == (
        406, "cannot switch from tx to confirm mode")
    assert refused(connection, lambda ch: (ch.confirm_delivery(), ch.tx_select())) == (
        406, "cannot switch from confirm to tx mode")
    assert refused(connection, lambda ch: ch.tx_commit()) == (406, "channel is not transactional")


def test_a12_an_answer_comes_directly(broker, connection, channel, name):
    queues(channel, name)
    question = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    asks_early = refused(connection, lambda ch: (ch.confirm_delivery(), put(ch, name, "?", properties=question)))
    assert asks_early == (406, "fast reply consumer does not exist")
    assert refused(connection, lambda ch: ch.basic_consume("amq.rabbitmq.reply-to", print)) == (
        406, "reply consumer cannot acknowledge")
    inbox = Inbox(channel, "amq.rabbitmq.reply-to", auto_ack=True)
    put(channel, name, "what?", properties=question)
    worker = connect(broker)
    at_worker = worker.channel()
    _, properties, _ = get(at_worker, name, auto_ack=True)
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    put(at_worker, properties.reply_to, "that", properties=pika.BasicProperties(correlation_id="7"))
    [(method, answer, body)] = inbox.wait(1)
    assert (body, answer.correlation_id, method.redelivered) == (b"that", "7", False)
    connection.close()
    put(at_worker, properties.reply_to, "nobody listens")
    assert count(at_worker, name) == 0
    worker.close()


def test_a11_returns_come_before_their_confirms(connection, channel, name):
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as told:
        channel.basic_publish("amq.topic", f"{name}.nobody", "x", mandatory=True)
    [message] = told.value.messages
    assert (message.method.reply_code, message.method.reply_text, message.body) == (312, "NO_ROUTE", b"x")
