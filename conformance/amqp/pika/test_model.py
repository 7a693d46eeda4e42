"""A queue against a simple model of one: the same seeds run against this broker and, with PEER_AMQP, against RabbitMQ,
which checks the model itself."""

import random

import pika
import pytest

from fourfold import eventually
from kit import count


class Model:
    """Every message that is not settled: waiting ones in the order they are handed out, those in hand by their tag."""

    def __init__(self, levels, length_max):
        self.levels, self.length_max = levels, length_max
        self.waiting, self.held, self.dead = [], {}, []
        self.published = self.tag = 0

    def publish(self, priority):
        self.published += 1
        self.waiting.append((-min(priority, self.levels), self.published, False))
        self.settle()
        return b"%d" % self.published

    def settle(self):
        self.waiting.sort()
        while self.length_max is not None and len(self.waiting) > self.length_max:
            self.dead.append((self.waiting.pop(0)[1], "maxlen"))

    def get(self):
        self.tag += 1
        self.held[self.tag] = self.waiting.pop(0)
        return self.tag, self.held[self.tag]

    def take(self, tag, multiple):
        tags = [known for known in sorted(self.held) if known == tag or (multiple and known < tag)]
        return [self.held.pop(known) for known in tags]

    def give_back(self, messages):
        self.waiting += [(level, number, True) for level, number, _ in messages]
        self.settle()


class Play:
    def __init__(self, channel, name, seed):
        self.random = random.Random(seed)
        self.channel, self.name = channel, name
        self.model = Model(self.random.choice([0, 3]), self.random.choice([None, None, 4]))
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name + "-dead"}
        if self.model.levels:
            arguments["x-max-priority"] = self.model.levels
        if self.model.length_max is not None:
            arguments["x-max-length"] = self.model.length_max
        channel.queue_declare(name, arguments=arguments)
        channel.queue_declare(name + "-dead")
        channel.confirm_delivery()

    def publish(self):
        priority = self.random.randrange(5)
        body = self.model.publish(priority if self.model.levels else 0)
        self.channel.basic_publish("", self.name, body, pika.BasicProperties(priority=priority))

    def get(self):
        method, _, body = self.channel.basic_get(self.name)
        if method is None:
            assert not self.model.waiting
            return
        tag, (_, number, redelivered) = self.model.get()
        assert (method.delivery_tag, body, method.redelivered) == (tag, b"%d" % number, redelivered)

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
            messages = self.model.take(tag, multiple)
            if requeue:
                self.model.give_back(messages)
            else:
                self.model.dead += [(number, "rejected") for _, number, _ in messages]

    def recover(self):
        self.channel.basic_recover(requeue=True)
        self.model.give_back([self.model.held.pop(tag) for tag in sorted(self.model.held)])

    def purge(self):
        self.look()
        messages = self.channel.queue_purge(self.name).method.message_count
        assert messages == len(self.model.waiting)
        self.model.waiting = []

    def look(self):
        # RabbitMQ counts a little later what was given back.
        eventually("the count is right", lambda: count(self.channel, self.name) == len(self.model.waiting), 5)

    def run(self, steps):
        acts = [self.publish] * 8 + [self.get] * 7 + [self.ack] * 4 + [self.nack] * 4 + [self.recover, self.look]
        for step in range(steps):
            act = self.purge if step % 70 == 69 else self.random.choice(acts)
            act()
        self.look()
        eventually("all letters are there",
                   lambda: count(self.channel, self.name + "-dead") == len(self.model.dead))
        dead = [self.channel.basic_get(self.name + "-dead", True) for _ in self.model.dead]
        told = [(int(body), properties.headers["x-death"][0]["reason"]) for _, properties, body in dead]
        assert sorted(told) == sorted(self.model.dead)


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_does_what_its_model_does(connection, name, seed):
    Play(connection.channel(), name, seed).run(200)
