"""A queue against a simple model of one: random publishes, gets, acknowledgements, returns, expiries, purges, deletions and
restarts. The same seeds run against this broker and, with PEER_AMQP, against RabbitMQ, which checks the model itself (its
restarts by PEER_AMQP_RESTART).

Time is real here, so what is expired must be beyond doubt: a message lives either for a millisecond, and is looked at only
well after that, or for LIFE seconds, and once one of those is half as old the play waits until it is over."""

import random
import time

import pika
import pytest

from fourfold import Broker
from kit import connect, count

LIFE = 2.0
MARGIN = 0.15


@pytest.fixture(scope="module")
def restarted():
    """A broker for the plays of this module, which restart it."""
    one = Broker()
    try:
        yield one.start()
    finally:
        one.close()


class Message:
    def __init__(self, number, level, lasts, end):
        self.number, self.level, self.lasts, self.end = number, level, lasts, end
        self.redelivered = False

    def __repr__(self):
        return f"{vars(self)} at {time.monotonic()}"


class Model:
    """Every message that is not settled: waiting ones in the order they are handed out, those in hand by their tag."""

    def __init__(self, is_peer):
        self.is_peer, self.forgets = is_peer, False
        self.levels, self.length_max = 0, None
        self.waiting, self.held, self.dead = [], {}, []
        self.published = self.tag = 0

    def publish(self, priority, lasts, life):
        self.published += 1
        end = time.monotonic() + life if life else None
        self.waiting.append(Message(self.published, min(priority, self.levels), lasts, end))
        self.settle()
        return b"%d" % self.published

    def settle(self):
        """What dies of age, as the first of all only, or of length."""
        self.waiting.sort(key=lambda message: (-message.level, message.number))
        now = time.monotonic()
        while self.waiting and self.waiting[0].end is not None and self.waiting[0].end <= now:
            self.dead.append((self.waiting.pop(0), "expired"))
        while self.length_max is not None and len(self.waiting) > self.length_max:
            self.dead.append((self.waiting.pop(0), "maxlen"))

    def counts(self):
        self.settle()
        return [len(self.waiting), len(self.dead)]

    def doubtful(self):
        """When the last of the long lives that began long ago ends."""
        now = time.monotonic()
        ends = [message.end for message in self.waiting + list(self.held.values()) if message.end is not None]
        ends = [end for end in ends if now - MARGIN < end < now + LIFE / 2]
        return max(ends, default=now - MARGIN)

    def get(self):
        self.tag += 1
        self.held[self.tag] = self.waiting.pop(0)
        return self.tag, self.held[self.tag]

    def take(self, tag, multiple):
        tags = [known for known in sorted(self.held) if known == tag or (multiple and known < tag)]
        return [self.held.pop(known) for known in tags]

    def give_back(self, messages):
        for message in messages:
            message.redelivered = True
        self.waiting += messages
        self.settle()

    def restart(self):
        self.forgets = self.is_peer
        self.waiting = [message for message in self.waiting + list(self.held.values()) if message.lasts]
        for message in self.waiting:
            message.redelivered = message.redelivered or message in self.held.values()
        self.held, self.tag = {}, 0
        self.dead = [(message, reason) for message, reason in self.dead if message.lasts]
        self.settle()


class Play:
    def __init__(self, broker, name, seed):
        self.random = random.Random(seed)
        self.broker, self.name, self.dead = broker, name, name + "-dead"
        self.model = Model(is_peer=bool(broker.peer))
        self.connect()
        self.channel.queue_declare(self.dead, durable=True)
        self.declare()

    def connect(self):
        self.connection = connect(self.broker)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def declare(self):
        self.model.levels, self.model.length_max = self.random.choice([0, 3]), self.random.choice([None, None, 4])
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        if self.model.levels:
            arguments["x-max-priority"] = self.model.levels
        if self.model.length_max is not None:
            arguments["x-max-length"] = self.model.length_max
        self.channel.queue_declare(self.name, durable=True, arguments=arguments)

    def publish(self):
        priority, lasts, life = self.random.randrange(5), self.random.random() < 0.7, self.random.choice([0] * 6 + [0.001, LIFE])
        if self.model.is_peer and self.model.levels:
            life = 0  # RabbitMQ delivers messages that are too old when they have overtaken others
        properties = pika.BasicProperties(priority=priority, delivery_mode=2 if lasts else 1,
                                          expiration="%d" % (life * 1000) if life else None)
        body = self.model.publish(priority, lasts, life)
        self.channel.basic_publish("", self.name, body, properties)
        if life == 0.001:
            time.sleep(MARGIN)
            self.model.settle()

    def get(self):
        method, _, body = self.channel.basic_get(self.name)
        if method is None:
            assert not self.model.waiting
            return
        tag, message = self.model.get()
        assert (method.delivery_tag, body) == (tag, b"%d" % message.number)
        # RabbitMQ forgets with a restart what was handed out before, and some of what is given back later.
        assert message.redelivered == method.redelivered or self.model.forgets

    def tag(self):
        return self.random.choice(sorted(self.model.held)) if self.model.held else None

    def ack(self):
        tag, multiple = self.tag(), self.random.random() < 0.3
        if tag:
            self.channel.basic_ack(tag, multiple)
            self.model.take(tag, multiple)

    def nack(self):
        tag, multiple, requeue = self.tag(), self.random.random() < 0.3, self.random.random() < 0.6
        if tag:
            self.channel.basic_nack(tag, multiple, requeue)
            self.give_back(self.model.take(tag, multiple), requeue)

    def reject(self):
        tag, requeue = self.tag(), self.random.random() < 0.6
        if tag:
            self.channel.basic_reject(tag, requeue)
            self.give_back(self.model.take(tag, False), requeue)

    def give_back(self, messages, requeue):
        if requeue:
            self.model.give_back(messages)
        else:
            self.model.dead += [(message, "rejected") for message in messages]

    def recover(self):
        self.channel.basic_recover(requeue=True)
        self.model.give_back([self.model.held.pop(tag) for tag in sorted(self.model.held)])

    def reconnect(self):
        self.connection.close()
        self.connect()
        self.model.give_back([self.model.held.pop(tag) for tag in sorted(self.model.held)])
        self.model.tag = 0
        self.look()

    def purge(self):
        self.look()
        messages = self.channel.queue_purge(self.name).method.message_count
        assert messages == len(self.model.waiting)
        self.model.waiting = []

    def delete(self):
        self.look()
        messages = self.channel.queue_delete(self.name).method.message_count
        assert messages == len(self.model.waiting)
        if self.model.held:
            self.channel.basic_ack(max(self.model.held), multiple=True)  # their queue is gone: it means nothing
        self.model.waiting, self.model.held = [], {}
        self.declare()
        self.look()

    def restart(self):
        # The letters of the dead have no confirm that we could wait for; their being there says that they are stored.
        self.look()
        hard = self.random.random() < 0.5 and not self.broker.peer
        if not hard:
            self.reconnect()  # what is in hand when it is told to stop may be given back before it ends, or after
        self.broker.restart(hard)
        self.connect()
        self.model.restart()
        self.wait(max([message.end or 0 for message in self.model.waiting], default=0))
        self.look()

    def wait(self, end):
        time.sleep(max(0, end + MARGIN - time.monotonic()))
        self.model.settle()

    def look(self):
        # RabbitMQ counts a little later what was given back.
        end = time.monotonic() + 5
        while (counts := [count(self.channel, queue) for queue in (self.name, self.dead)]) != self.model.counts():
            assert time.monotonic() < end, f"{counts} wait and are dead instead of {self.model.counts()}"

    def run(self, steps):
        acts = [self.publish] * 8 + [self.get] * 7 + [self.ack] * 4 + [self.nack] * 3 + [self.reject] * 2
        acts += [self.recover, self.look]
        rare = {69: self.purge, 89: self.reconnect, 109: self.delete, 139: self.restart, 159: self.purge, 189: self.restart}
        for step in range(steps):
            act = rare.get(step) or self.random.choice(acts)
            self.wait(self.model.doubtful())
            act()
        self.look()
        dead = [self.channel.basic_get(self.dead, True) for _ in self.model.dead]
        told = [(int(body), properties.headers["x-death"][0]["reason"]) for _, properties, body in dead]
        assert sorted(told) == sorted((message.number, reason) for message, reason in self.model.dead)
        self.channel.queue_delete(self.name)
        self.channel.queue_delete(self.dead)
        self.connection.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_does_what_its_model_does(restarted, name, seed):
    Play(restarted, name, seed).run(200)
