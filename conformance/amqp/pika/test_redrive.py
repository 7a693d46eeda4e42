"""Dead letters put back where they came from by `fourfold queue redrive` (case X07): each once, also through a kill."""

import json
import os
import subprocess
import time

import pika
import pytest

from fourfold import eventually
from kit import PERSISTENT, Inbox, connect, count, get, put


def command(broker, *words):
    server = f"http://127.0.0.1:{broker.ports['http']}"
    return [os.environ["FOURFOLD_BIN"], "queue", "redrive", *words, "--server", server, "-o", "json"]


def redrive(broker, *words):
    if broker.peer:
        pytest.skip("the peer has no such command")
    done = subprocess.run(command(broker, *words), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(broker, *words):
    done = subprocess.run(command(broker, *words), capture_output=True, text=True, timeout=120)
    assert done.returncode != 0, done.stdout
    return done.stderr


def with_dead(channel, name, queues, **arguments):
    """Durable queues bound to the topic exchange `name` by their own names, whose dead go to the queue `name`-dead."""
    channel.exchange_declare(name, "topic", durable=True)
    channel.queue_declare(name + "-dead", durable=True)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name + "-dead"}
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments=letters | arguments)
        channel.queue_bind(queue, name, queue + ".#")
    return name + "-dead"


def test_each_goes_back_to_its_queue_as_it_was(broker, channel, name):
    one, two = name + "-1", name + "-2"
    dead = with_dead(channel, name, [one, two])
    for number in range(3):
        for queue in (one, two):
            properties = pika.BasicProperties(delivery_mode=2, headers={"n": number}, message_id=str(number))
            channel.basic_publish(name, f"{queue}.new", b"%d" % number, properties)
            method, _, _ = get(channel, queue)
            channel.basic_reject(method.delivery_tag, requeue=False)
    eventually("the dead", lambda: count(channel, dead) == 6)
    assert redrive(broker, dead) == {"moved": 6, "kept": 0, "why": None}
    assert count(channel, dead) == 0
    for queue in (one, two):
        for number in range(3):
            method, properties, body = get(channel, queue)
            assert (body, properties.message_id, properties.headers["n"]) == (b"%d" % number, str(number), number)
            assert (method.exchange, method.routing_key, method.redelivered) == (name, f"{queue}.new", False)
            (death,) = properties.headers["x-death"]
            assert (death["queue"], death["reason"], death["count"]) == (queue, "rejected", 1)
            channel.basic_reject(method.delivery_tag, requeue=False)
    # They may die again, and their deaths are counted on.
    eventually("the dead again", lambda: count(channel, dead) == 6)
    assert get(channel, dead)[1].headers["x-death"][0]["count"] == 2


def test_expired_messages_go_back_and_live_anew(broker, channel, name):
    dead = with_dead(channel, name, [name])
    for number in range(1000):
        put(channel, name, b"%d" % number, properties=pika.BasicProperties(delivery_mode=2, expiration="1"))
    eventually("all have died", lambda: count(channel, dead) == 1000)
    assert redrive(broker, dead)["moved"] == 1000
    inbox = Inbox(channel, name, auto_ack=True)
    inbox.wait(1000)
    assert inbox.bodies == [b"%d" % number for number in range(1000)]
    assert inbox.got[0][1].headers["x-death"][0]["original-expiration"] == "1"


def test_another_queue_a_limit_and_messages_without_a_history(broker, channel, name):
    dead = with_dead(channel, name, [name], **{"x-message-ttl": 1})
    put(channel, dead, b"stranger", properties=PERSISTENT)
    put(channel, name, b"1", b"2", b"3", properties=PERSISTENT)
    eventually("all have died", lambda: count(channel, dead) == 4)
    other = name + "-other"
    channel.queue_declare(other, durable=True)
    assert redrive(broker, dead, "--to", other, "--limit", "2")["moved"] == 2
    assert [get(channel, other)[2] for _ in range(2)] == [b"stranger", b"1"]
    channel.queue_delete(name)
    said = redrive(broker, dead)
    assert (said["moved"], said["kept"]) == (0, 2) and f"no queue '{name}' any more" in said["why"], said
    assert not get(channel, dead)[0].redelivered


def test_what_makes_no_sense_is_refused(broker, channel, name):
    channel.queue_declare(name)
    assert f"no queue '{name}-none'" in refused(broker, name + "-none")
    assert f"no queue '{name}-none'" in refused(broker, name, "--to", name + "-none")
    assert "are there already" in refused(broker, name, "--to", name)
    assert "limit is from 1" in refused(broker, name, "--limit", "0")
    channel.queue_declare(name + "-s", durable=True, arguments={"x-queue-type": "stream"})
    assert "is a stream" in refused(broker, name + "-s")


def test_x07_a_kill_in_the_middle_neither_loses_nor_doubles(own_broker):
    total = 20_000
    connection = connect(own_broker)
    channel = connection.channel()
    dead = with_dead(channel, "q", ["q"], **{"x-max-length": 0})
    put(channel, "q", *(b"%d" % number for number in range(total)), properties=PERSISTENT)
    eventually("all have died", lambda: count(channel, dead) == total, 120)
    channel.queue_delete("q")
    channel.queue_declare("q", durable=True)
    for pause in (0.05, 0.15, 0.25):
        running = subprocess.Popen(command(own_broker, dead), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause)  # whenever it comes, no message may be lost or doubled
        own_broker.kill()
        running.wait(60)
        own_broker.start()
        channel = connect(own_broker).channel()
        moved, left = count(channel, "q"), count(channel, dead)
        print(f"killed after {pause} s: {moved} moved, {left} left")
        assert moved + left == total
    redrive(own_broker, dead)
    assert (count(channel, "q"), count(channel, dead)) == (total, 0)
    inbox = Inbox(channel, "q", auto_ack=True)
    inbox.wait(total, 120)
    assert inbox.bodies == [b"%d" % number for number in range(total)]
