"""What queues do besides keeping messages: lives, lengths, dead letters, priorities, quorum queues (rows R8 to R12)."""

import time

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from fourfold import eventually
from kit import PERSISTENT, Inbox, connect, count, get, put


def gone(channel, queue, seconds=10):
    eventually(f"{queue} is empty", lambda: count(channel, queue) == 0, seconds)


def with_letters(channel, name, **arguments):
    """A queue whose dead go to the queue `name`-dead."""
    channel.queue_declare(name + "-dead", durable=True)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name + "-dead"}
    channel.queue_declare(name, durable=True, arguments=letters | arguments)
    return name + "-dead"


@pytest.mark.parametrize("expiration, least", [("200", 0.2), ("900", 0.5)])
def test_the_smaller_time_to_live_counts(channel, name, expiration, least):
    channel.queue_declare(name, arguments={"x-message-ttl": 500})
    begun = time.monotonic()
    put(channel, name, b"x", properties=pika.BasicProperties(expiration=expiration))
    eventually("it is there", lambda: count(channel, name) == 1)
    gone(channel, name)
    took = time.monotonic() - begun
    # Slow machines are late, never early.
    assert least - 0.02 <= took, took


def test_a04_a_time_to_live_acts_at_the_head_only(channel, name):
    channel.queue_declare(name)
    put(channel, name, b"long", properties=pika.BasicProperties(expiration="5000"))
    put(channel, name, b"short", properties=pika.BasicProperties(expiration="100"))
    # When one that is first in its queue is gone, the time of the one before it has passed too.
    channel.queue_declare(name + "-clock", exclusive=True)
    put(channel, name + "-clock", b"tick", properties=pika.BasicProperties(expiration="100"))
    gone(channel, name + "-clock")
    assert count(channel, name) == 2
    assert get(channel, name)[2] == b"long"
    eventually("the short one is gone", lambda: channel.basic_get(name)[0] is None)


def test_a04_without_time_to_live_a_message_reaches_only_who_waits(channel, name):
    channel.queue_declare(name, arguments={"x-message-ttl": 0})
    put(channel, name, b"nobody")
    gone(channel, name)
    inbox = Inbox(channel, name, auto_ack=True)
    put(channel, name, b"somebody")
    assert inbox.wait(1)[0][2] == b"somebody"


def test_a04_the_clock_starts_anew_in_the_next_queue(channel, name):
    third, second = name + "3", name + "2"
    channel.queue_declare(third)
    for queue, to in [(second, third), (name, second)]:
        arguments = {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
        channel.queue_declare(queue, arguments=arguments)
    begun = time.monotonic()
    put(channel, name, b"x")
    _, properties, _ = get(channel, third)
    assert time.monotonic() - begun >= 0.58
    assert [death["queue"] for death in properties.headers["x-death"]] == [second, name]


def test_a_death_is_told_in_x_death(channel, name):
    dead = with_letters(channel, name)
    headers = {"n": 7}
    put(channel, name, b"x", properties=pika.BasicProperties(expiration="50", headers=headers, message_id="id"))
    _, properties, body = get(channel, dead)
    (death,) = properties.headers["x-death"]
    assert (body, properties.message_id, properties.expiration, properties.headers["n"]) == (b"x", "id", None, 7)
    assert (death["count"], death["reason"], death["queue"], death["exchange"]) == (1, "expired", name, "")
    assert (death["routing-keys"], death["original-expiration"]) == ([name], "50")
    assert properties.headers["x-first-death-reason"] == "expired"
    assert properties.headers["x-first-death-queue"] == name


def test_a01_a_republished_message_keeps_its_count(channel, name):
    dead = with_letters(channel, name)
    put(channel, name, b"x", properties=pika.BasicProperties(expiration="50"))
    _, properties, body = get(channel, dead, auto_ack=True)
    properties.expiration = "50"
    put(channel, name, body, properties=properties)
    _, properties, _ = get(channel, dead, auto_ack=True)
    (death,) = properties.headers["x-death"]
    assert death["count"] == 2


def test_a02_a_delay_by_dead_letters_is_no_cycle_and_a_true_one_is_dropped(channel, name):
    delay = name + "-delay"
    channel.queue_declare(name)
    channel.queue_declare(delay, arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "",
                                            "x-dead-letter-routing-key": name})
    for number in range(3):
        put(channel, delay, b"%d" % number)
        _, properties, body = get(channel, name, auto_ack=True)
        assert body == b"%d" % number
    put(channel, delay, body, properties=properties)
    _, properties, _ = get(channel, name, auto_ack=True)
    assert properties.headers["x-death"][0]["count"] == 2
    loop = name + "-loop"
    channel.queue_declare(loop, arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "",
                                           "x-dead-letter-routing-key": loop})
    put(channel, loop, b"round")
    gone(channel, loop)


@pytest.mark.parametrize("refuse", ["nack", "reject"])
def test_refused_messages_are_dead_letters_and_a_rejection_breaks_a_cycle(channel, name, refuse):
    delay = name + "-delay"
    channel.queue_declare(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": delay})
    channel.queue_declare(delay, arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "",
                                            "x-dead-letter-routing-key": name})
    put(channel, name, b"again")
    for attempt in range(3):
        method, properties, _ = get(channel, name)
        deaths = {death["reason"]: death["count"] for death in (properties.headers or {}).get("x-death", [])}
        assert deaths == ({} if attempt == 0 else {"expired": attempt, "rejected": attempt})
        getattr(channel, "basic_" + refuse)(method.delivery_tag, requeue=False)


def test_a_queue_that_nobody_uses_goes(channel, name):
    channel.queue_declare(name, arguments={"x-expires": 400})

    def missing():
        probe = channel.connection.channel()
        probe.confirm_delivery()
        try:
            probe.basic_publish("", name, b"", mandatory=True)
        except UnroutableError:
            return True
        return False
    eventually("the queue is gone", missing)


def test_a_full_queue_drops_its_head(channel, name):
    dead = with_letters(channel, name, **{"x-max-length": 2})
    put(channel, name, b"1", b"2", b"3")
    _, properties, body = get(channel, dead)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"1", "maxlen")
    assert [get(channel, name)[2] for _ in range(2)] == [b"2", b"3"]


def test_bytes_count_too(channel, name):
    channel.queue_declare(name, arguments={"x-max-length-bytes": 25})
    put(channel, name, b"0123456789", b"1123456789", b"2123456789")
    eventually("one is dropped", lambda: count(channel, name) == 2)
    assert get(channel, name)[2] == b"1123456789"


@pytest.mark.parametrize("overflow, letters", [("reject-publish", 0), ("reject-publish-dlx", 1)])
def test_a_full_queue_refuses_with_a_nack(channel, name, overflow, letters):
    dead = with_letters(channel, name, **{"x-max-length": 1, "x-overflow": overflow})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1", PERSISTENT)
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"2", PERSISTENT)
    eventually("the letter is there", lambda: count(channel, dead) == letters)
    assert count(channel, name) == 1


def test_higher_priorities_go_first(channel, name):
    channel.queue_declare(name, arguments={"x-max-priority": 5})
    for priority in [None, 3, 9, 1, 5, 0]:
        put(channel, name, str(priority).encode(), properties=pika.BasicProperties(priority=priority))
    assert [get(channel, name)[2] for _ in range(6)] == [b"9", b"5", b"3", b"1", b"None", b"0"]


def test_one_consumer_is_active_and_the_next_takes_over(connection, name):
    channel = connection.channel()
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    one, two = Inbox(channel, name, auto_ack=True), Inbox(channel, name, auto_ack=True)
    put(channel, name, b"1", b"2")
    one.wait(2)
    channel.basic_cancel(one.tag)
    put(channel, name, b"3")
    two.wait(1)
    assert (one.bodies, two.bodies) == ([b"1", b"2"], [b"3"])
    with pytest.raises(ChannelClosedByBroker) as refused:
        connection.channel().basic_consume(name, lambda *_: None, exclusive=True)
    assert refused.value.reply_code == 403


def test_consumers_of_a_higher_priority_are_served_first(channel, name):
    channel.queue_declare(name)
    channel.basic_qos(prefetch_count=2)
    low = Inbox(channel, name)
    high = Inbox(channel, name, arguments={"x-priority": 10})
    put(channel, name, b"1", b"2", b"3")
    high.wait(2)
    low.wait(1)
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3"])


def test_a_quorum_queue_counts_deliveries_and_ends_poison(channel, name):
    dead = with_letters(channel, name, **{"x-queue-type": "quorum", "x-delivery-limit": 2})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"poison", PERSISTENT)
    for attempt in range(3):
        method, properties, _ = get(channel, name)
        assert (properties.headers or {}).get("x-delivery-count", 0) == attempt
        channel.basic_reject(method.delivery_tag, requeue=True)
    _, properties, body = get(channel, dead)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"poison", "delivery_limit")


@pytest.mark.parametrize("declared, said", [
    ({"x-message-ttl": -1}, "{value_negative,-1}"),
    ({"x-message-ttl": "a"}, '"expected integer, got longstr"'),
    ({"x-expires": 0}, "{value_zero,0}"),
    ({"x-overflow": "zz"}, "invalid_overflow"),
    ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
    ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
    ({"x-queue-type": "zz"}, "\"unsupported queue type 'zz'\""),
])
def test_bad_arguments_are_refused_in_the_words_that_people_know(channel, name, declared, said):
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(name, arguments=declared)
    argument = next(iter(declared))
    expected = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/': {said}"
    assert (refused.value.reply_code, refused.value.reply_text) == (406, expected[:255])


def test_a_second_declaration_must_ask_for_the_same(connection, name):
    connection.channel().queue_declare(name, arguments={"x-message-ttl": 1000})
    connection.channel().queue_declare(name, arguments={"x-message-ttl": 1000, "x-unknown": 1})
    for arguments, said in [({}, "received none but current is the value '1000' of type 'signedint'"),
                            ({"x-message-ttl": 2000}, "received '2000' but current is '1000'")]:
        with pytest.raises(ChannelClosedByBroker) as refused:
            connection.channel().queue_declare(name, arguments=arguments)
        assert refused.value.reply_code == 406 and refused.value.reply_text.endswith(said)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_rules_and_letters_survive_a_restart_and_transient_messages_do_not(own_broker, end):
    channel = connect(own_broker).channel()
    dead = with_letters(channel, "q", **{"x-max-priority": 3})
    with_letters(channel, "ttl", **{"x-message-ttl": 2000})
    channel.confirm_delivery()
    for priority in [0, 2]:
        channel.basic_publish("", "q", b"%d" % priority, pika.BasicProperties(delivery_mode=2, priority=priority))
    channel.basic_publish("", "q", b"transient", pika.BasicProperties(delivery_mode=1))
    channel.basic_publish("", "ttl", b"short", PERSISTENT)
    getattr(own_broker, end)()
    own_broker.start()
    channel = connect(own_broker).channel()
    channel.queue_declare("ttl-dead", durable=True)
    assert count(channel, "q") == 2
    method, _, body = get(channel, "q")
    assert body == b"2"
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert get(channel, dead)[2] == b"2"
    assert get(channel, "ttl-dead")[2] == b"short"
