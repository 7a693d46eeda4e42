"""Streams over AMQP 0-9-1: each consumer at its own place, nothing is taken away, and Kafka reads and writes the same."""

import datetime
import time

import pika
import pytest

from fourfold import Broker, eventually
from kit import Inbox, connect
from test_cross import produce, read

STREAM = {"x-queue-type": "stream"}


def declare(channel, name, **arguments):
    spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=STREAM | spelled)


def put(channel, stream, *bodies, **options):
    """Published and confirmed."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", stream, body, pika.BasicProperties(delivery_mode=2, **options))


class Reader(Inbox):
    """A consumer of a stream that acknowledges what it gets."""

    def __init__(self, channel, stream, offset=None, prefetch=100, **arguments):
        channel.basic_qos(prefetch_count=prefetch)
        place = {} if offset is None else {"x-stream-offset": offset}
        spelled = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        super().__init__(channel, stream, arguments=place | spelled)

    def _keep(self, channel, method, properties, body):
        super()._keep(channel, method, properties, body)
        channel.basic_ack(method.delivery_tag)

    @property
    def offsets(self):
        return [int(properties.headers["x-stream-offset"]) for _, properties, _ in self.got]


@pytest.fixture
def five(connection, name):
    channel = connection.channel()
    declare(channel, name)
    put(channel, name, *[b"m%d" % n for n in range(5)])
    yield name
    connection.channel().queue_delete(name)


@pytest.mark.parametrize("offset, first", [
    ("first", 0), ("last", 4), (0, 0), (2, 2), (-1, 0), ("1h", 0),
    (datetime.datetime.now() - datetime.timedelta(hours=1), 0),
])
def test_a_reader_begins_where_it_asks_to(connection, five, offset, first):
    reader = Reader(connection.channel(), five, offset)
    reader.wait(5 - first)
    assert reader.bodies == [b"m%d" % n for n in range(first, 5)]
    assert reader.offsets == list(range(first, 5))
    assert not any(method.redelivered for method, _, _ in reader.got)


@pytest.mark.parametrize("offset", [None, "next", 5, datetime.datetime.now() + datetime.timedelta(hours=1)])
def test_who_begins_behind_all_gets_what_comes(connection, five, offset):
    channel = connection.channel()
    reader = Reader(channel, five, offset)
    reader.stays(0)
    put(connection.channel(), five, b"new")
    reader.wait(1)
    assert (reader.bodies, reader.offsets) == ([b"new"], [5])


def test_who_asks_for_an_offset_that_is_yet_to_come_gets_nothing_before_it(connection, five):
    reader = Reader(connection.channel(), five, 7)
    put(connection.channel(), five, b"5", b"6", b"7", b"8")
    reader.wait(2)
    assert (reader.bodies, reader.offsets) == ([b"7", b"8"], [7, 8])


def test_acknowledgements_give_credit_and_remove_nothing(connection, five):
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, five, arguments={"x-stream-offset": "first"})
    inbox.wait(2)
    inbox.stays(2)
    channel.basic_ack(2, multiple=True)
    inbox.wait(4)
    channel.basic_cancel(inbox.tag)
    again = Reader(connection.channel(), five, "first")
    again.wait(5)
    assert again.bodies == [b"m%d" % n for n in range(5)]
    assert again.offsets == list(range(5))


def test_consumers_of_one_channel_and_of_others_have_places_of_their_own(broker, connection, five):
    channel = connection.channel()
    readers = [Reader(channel, five, "first"), Reader(channel, five, 3)]
    other = connect(broker)
    readers.append(Reader(other.channel(), five, "last"))
    for reader, first in zip(readers, (0, 3, 4)):
        reader.wait(5 - first)
        assert reader.offsets == list(range(first, 5))
    other.close()


def closes(broker, act, code, text):
    with pytest.raises((pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)) as closed:
        connection = connect(broker)
        channel = connection.channel()
        act(channel)
        connection.process_data_events(time_limit=5)
    assert closed.value.reply_code == code
    assert text in closed.value.reply_text


def test_what_streams_do_not_do_is_refused_in_rabbitmqs_words(broker, five):
    it = f"queue '{five}' in vhost '/'"
    closes(broker, lambda ch: ch.basic_get(five), 540, f"basic.get not supported by stream queues {it}")
    closes(broker, lambda ch: ch.queue_purge(five), 540, f"queue.purge not supported by stream queues {it}")
    closes(broker, lambda ch: ch.basic_consume(five, print), 406, f"consumer prefetch count is not set for '{it}'")
    auto = f"automatic acknowledgement not supported by stream queues {it}"

    def consumes(channel, auto_ack=False, glob=False, **arguments):
        channel.basic_qos(prefetch_count=10, global_qos=glob)
        channel.basic_consume(five, print, auto_ack, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
    closes(broker, lambda ch: consumes(ch, auto_ack=True), 540, auto)
    closes(broker, lambda ch: consumes(ch, glob=True), 406, "consumer prefetch count is not set")
    closes(broker, lambda ch: consumes(ch, x_priority=5), 406,
           f"invalid arg 'x-priority' for {it} of queue type rabbit_stream_queue")
    closes(broker, lambda ch: consumes(ch, x_stream_offset="1H"), 406, "{invalid_stream_offset_arg,{longstr,<<\"1H\">>}}")

    def settles(how):
        def act(channel):
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(five, lambda ch, method, _properties, _body: how(ch, method.delivery_tag),
                                  arguments={"x-stream-offset": "first"})
            channel.connection.process_data_events(time_limit=5)
        return act
    refused = f"basic.nack and basic.reject not supported by stream queues {it}"
    for how in [lambda ch, tag: ch.basic_nack(tag), lambda ch, tag: ch.basic_nack(tag, requeue=False),
                lambda ch, tag: ch.basic_reject(tag)]:
        closes(broker, settles(how), 540, refused)


def test_declarations_that_are_no_streams_are_refused(broker, name):
    def declares(*, durable=True, exclusive=False, auto_delete=False, queue=name, **arguments):
        spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
        return lambda ch: ch.queue_declare(queue, False, durable, exclusive, auto_delete, STREAM | spelled)
    for what, options in [("non-durable", {"durable": False}), ("exclusive-owner", {"exclusive": True}),
                          ("auto-delete", {"auto_delete": True})]:
        closes(broker, declares(**options), 406, f"invalid property '{what}' for queue '{name}' in vhost '/'")
    unnamed = "Cannot declare a server-named queue for type rabbit_stream_queue"
    closes(broker, declares(queue=""), 406, unnamed)
    for argument, value, why in [
        ("x_max_age", 5, "{unacceptable_type,signedint}"), ("x_max_age", "1H", "invalid_max_age"),
        ("x_max_age", "0s", "invalid_max_age"), ("x_max_length_bytes", -1, "{value_negative,-1}"),
        ("x_max_length_bytes", "a", "\"expected integer, got longstr\""),
        ("x_stream_max_segment_size_bytes", -1, "{value_negative,-1}"),
        ("x_stream_max_segment_size_bytes", 5_000_000_000, "Exceeded max value for x-stream-max-segment-size-bytes"),
        ("x_initial_cluster_size", 0, "{value_zero,0}"), ("x_queue_leader_locator", "zz", "invalid_queue_locator_arg"),
        ("x_message_ttl", 5, "of queue type rabbit_stream_queue"), ("x_max_length", 5, "of queue type rabbit_stream_queue"),
        ("x_expires", 5, "of queue type rabbit_stream_queue"), ("x_overflow", "drop-head", "of queue type rabbit_stream"),
        ("x_dead_letter_exchange", "", "of queue type rabbit_stream_queue"),
        ("x_single_active_consumer", True, "of queue type rabbit_stream_queue"),
    ]:
        closes(broker, declares(**{argument: value}), 406, why)


def test_a_second_declaration_must_be_equal(broker, five):
    differs = f"inequivalent arg 'x-max-age' for queue '{five}' in vhost '/': received the value '1h' of type 'longstr'"
    closes(broker, lambda ch: declare(ch, five, x_max_age="1h"), 406, differs)
    plain = f"inequivalent arg 'x-queue-type' for queue '{five}' in vhost '/': received none but current is the value"
    closes(broker, lambda ch: ch.queue_declare(five, durable=True), 406, plain)


def test_bindings_and_mandatory_route_to_a_stream_as_to_a_queue(connection, name):
    channel = connection.channel()
    declare(channel, name)
    channel.exchange_declare(name, "topic", durable=True)
    channel.queue_bind(name, name, "a.#")
    channel.confirm_delivery()
    channel.basic_publish(name, "a.b", b"in", pika.BasicProperties(headers={"n": 1}), mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(name, "b", b"out", mandatory=True)
    reader = Reader(connection.channel(), name, "first")
    (method, properties, body), = reader.wait(1)
    assert (method.exchange, method.routing_key, body, properties.headers["n"]) == (name, "a.b", b"in", 1)
    channel.queue_delete(name)


def test_consumers_are_told_when_the_stream_goes(broker, connection, five):
    channel = connection.channel()
    gone = []
    channel.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
    reader = Reader(channel, five)
    connect(broker).channel().queue_delete(five)
    end = time.monotonic() + 30
    while not gone and time.monotonic() < end:
        connection.process_data_events(time_limit=0.2)
    assert gone == [reader.tag]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_stream_and_its_offsets_survive(own_broker, name, end):
    channel = connect(own_broker).channel()
    declare(channel, name, x_max_age="7D")
    put(channel, name, *[b"%d" % n for n in range(300)])
    getattr(own_broker, end)()
    own_broker.start()
    connection = connect(own_broker)
    reader = Reader(connection.channel(), name, 100)
    reader.wait(200)
    assert reader.offsets == list(range(100, 300))
    assert reader.bodies == [b"%d" % n for n in range(100, 300)]
    put(connection.channel(), name, b"after")
    assert reader.wait(201)[200][1].headers["x-stream-offset"] == 300
    assert connection.channel().queue_declare(name, passive=True).method.message_count == 301


@pytest.fixture
def both(broker):
    if broker.peer:
        pytest.skip("no peer speaks both tongues")


def test_kafka_reads_a_stream_and_writes_it(both, broker, connection, name):
    channel = connection.channel()
    declare(channel, name)
    channel.queue_bind(name, "amq.topic", "order.*")
    channel.confirm_delivery()
    for n in range(10):
        channel.basic_publish("amq.topic", f"order.{n % 3}", b"amqp-%d" % n,
                              pika.BasicProperties(delivery_mode=2, headers={"n": n}))
    produce(broker, name, [{"key": b"k", "value": b"kafka-%d" % n, "headers": [("h", b"v")]} for n in range(10)])
    reader = Reader(connection.channel(), name, "first")
    reader.wait(20)
    assert reader.bodies == [b"amqp-%d" % n for n in range(10)] + [b"kafka-%d" % n for n in range(10)]
    assert reader.offsets == list(range(20))
    got = read(broker, name, 20)
    assert [message.value() for message in got] == reader.bodies
    assert [message.offset() for message in got] == list(range(20))
    assert got[4].key() == b"order.1" and got[15].headers() == [("h", b"v")]


def test_a_stream_shows_a_topic_that_kafka_made_partition_by_partition(both, broker, connection, name):
    from test_cross import create
    create(broker, name, 3)
    for partition in range(3):
        produce(broker, name, [{"value": b"%d-%d" % (partition, n), "partition": partition} for n in range(4)])
    channel = connection.channel()
    declare(channel, name + "-view", x_topic=name)
    reader = Reader(channel, name + "-view", "first")
    reader.wait(12)
    places = {(p.headers["x-stream-partition"], p.headers["x-stream-offset"]): body for _, p, body in reader.got}
    assert places == {(p, n): b"%d-%d" % (p, n) for p in range(3) for n in range(4)}
    one = Reader(connection.channel(), name + "-view", 2, stream_partition=1)
    one.wait(2)
    assert one.bodies == [b"1-2", b"1-3"]
    closes(broker, lambda ch: Reader(ch, name + "-view", 2), 406, "say which one to read")
    closes(broker, lambda ch: declare(ch, name, x_max_age="1h"), 406, "is there already")
    channel.queue_delete(name + "-view")
    assert [m.value() for m in read(broker, name, 12, 3)], "the topic is not the view's"


def test_a_filter_lets_only_marked_messages_through(both, broker, connection, name):
    channel = connection.channel()
    declare(channel, name)
    for n, mark in enumerate(["eu", "us", None, "eu"]):
        put(channel, name, b"%d" % n, headers={"x-stream-filter-value": mark} if mark else {})
    some = Reader(connection.channel(), name, "first", stream_filter="eu")
    some.wait(2)
    assert some.bodies == [b"0", b"3"]
    more = Reader(connection.channel(), name, "first", stream_filter=["us"], stream_match_unfiltered=True)
    more.wait(2)
    assert more.bodies == [b"1", b"2"]


@pytest.fixture
def forgetful_broker():
    one = Broker("--topics-retention-check", "100ms")
    try:
        yield one.start()
    finally:
        one.close()


def test_a_stream_forgets_by_size_in_whole_segments(both, forgetful_broker, name):
    connection = connect(forgetful_broker)
    channel = connection.channel()
    declare(channel, name, x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=5_000)
    put(channel, name, *[b"x" * 1000] * 60)

    def is_short():
        return connection.channel().queue_declare(name, passive=True).method.message_count < 30
    eventually("the oldest segments are gone", is_short)
    reader = Reader(connection.channel(), name, 0)
    reader.wait(1)
    assert reader.offsets[0] > 30, "an offset that is gone is the oldest one kept"
