"""Short words for what most tests here do with pika."""

import time

import pika
import pytest


def connect(broker, **options):
    parameters = pika.ConnectionParameters(host="127.0.0.1", port=broker.amqp_port, heartbeat=0,
                                           blocked_connection_timeout=30, socket_timeout=30, **options)
    return pika.BlockingConnection(parameters)


@pytest.fixture
def connection(broker):
    one = connect(broker)
    yield one
    if one.is_open:
        one.close()


@pytest.fixture
def channel(connection):
    return connection.channel()


PERSISTENT = pika.BasicProperties(delivery_mode=2)


def put(channel, queue, *bodies, properties=None, exchange=""):
    for body in bodies:
        channel.basic_publish(exchange, queue, body, properties)


def get(channel, queue, seconds=30, auto_ack=False):
    """One message by basic.get, waited for."""
    end = time.monotonic() + seconds
    while True:
        got = channel.basic_get(queue, auto_ack)
        if got[0] is not None:
            return got
        assert time.monotonic() < end, f"no message in {queue} within {seconds} s"


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


class Inbox:
    """A consumer that keeps what it is delivered."""

    def __init__(self, channel, queue, **options):
        self.channel = channel
        self.got = []
        self.tag = channel.basic_consume(queue, self._keep, **options)

    def _keep(self, _channel, method, properties, body):
        self.got.append((method, properties, body))

    @property
    def bodies(self):
        return [body for _, _, body in self.got]

    def wait(self, total, seconds=30):
        """Waits until `total` messages have come since the beginning; answers them."""
        end = time.monotonic() + seconds
        while len(self.got) < total:
            left = end - time.monotonic()
            assert left > 0, f"{self.bodies!r} instead of {total} messages within {seconds} s"
            self.channel.connection.process_data_events(time_limit=min(left, 1))
        return self.got

    def stays(self, total):
        """No more than `total` have come by the time that the broker has answered three later questions."""
        for _ in range(3):
            self.channel.exchange_declare("amq.direct", passive=True)
            self.channel.connection.process_data_events(time_limit=0)
        assert len(self.got) == total, self.bodies
