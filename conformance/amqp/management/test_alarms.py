"""Alarms: who publishes while the disk is full or memory low is asked to wait, all else goes on, and it heals alone."""

import subprocess
import sys

import pika
import pytest

from fourfold import Broker, eventually
from fulldisk import FullDisk
from tools import Api, connect

PERSISTENT = pika.BasicProperties(delivery_mode=2)

# Publishes once, says so when it is blocked, and stays until it is killed.
DOOMED = """
import sys, pika
parameters = pika.ConnectionParameters("127.0.0.1", int(sys.argv[1]), heartbeat=0,
                                       client_properties={"connection_name": "doomed"})
connection = pika.BlockingConnection(parameters)
connection.add_on_connection_blocked_callback(lambda _, said: print(said.method.reason, flush=True))
connection.channel().basic_publish("", "q", b"doomed", pika.BasicProperties(delivery_mode=2))
while True:
    connection.process_data_events(1)
"""


class Publisher:
    """A connection that keeps what it is told of being blocked."""

    def __init__(self, broker, name):
        self.told = []
        self.connection = connect(broker, client_properties={"connection_name": name})
        self.connection.add_on_connection_blocked_callback(lambda _, said: self.told.append(said.method.reason))
        self.connection.add_on_connection_unblocked_callback(lambda *_: self.told.append("unblocked"))
        self.channel = self.connection.channel()

    def hears(self, wanted):
        def told():
            self.connection.process_data_events(0.1)
            return self.told == wanted
        eventually(f"{wanted} instead of {self.told}", told)


@pytest.fixture
def own():
    """Starts brokers that end with the test."""
    all = []

    def start(broker):
        all.append(broker)
        return broker.start()
    yield start
    for one in all:
        one.close()


def states(api):
    return {one["user_provided_name"]: one["state"] for one in api.get("connections")}


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def test_x02_a_full_disk_blocks_who_publishes_and_heals_alone(own):
    broker = own(FullDisk())
    api = Api(broker)
    publisher, other = Publisher(broker, "publisher"), Publisher(broker, "other")
    other.channel.queue_declare("q", durable=True)
    other.channel.queue_declare("work", durable=True)
    other.channel.basic_publish("", "work", b"before", PERSISTENT)
    assert api.get("health/checks/alarms") == {"status": "ok"} and states(api) == dict.fromkeys(["publisher", "other"], "running")

    broker.take()
    for check in ["alarms", "local-alarms"]:
        status, body = api.ask("GET", f"health/checks/{check}")
        assert (status, body["status"], [one["resource"] for one in body["alarms"]]) == (503, "failed", ["disk"])
    (node,) = api.get("nodes")
    assert (node["disk_free_alarm"], node["mem_alarm"]) == (True, False) and node["disk_free"] < node["disk_free_limit"]
    assert states(api) == dict.fromkeys(["publisher", "other"], "blocking")
    publisher.hears([])

    publisher.channel.basic_publish("", "q", b"held", PERSISTENT)
    publisher.hears(["low on disk"])
    doomed = subprocess.Popen([sys.executable, "-c", DOOMED, str(broker.amqp_port)], stdout=subprocess.PIPE, text=True)
    assert doomed.stdout.readline() == "low on disk\n"
    assert states(api) == {"publisher": "blocked", "other": "blocking", "doomed": "blocked"}
    doomed.kill()
    doomed.communicate()
    eventually("the killed connection is gone", lambda: "doomed" not in states(api))

    # All but publishing goes on.
    assert count(other.channel, "q") == 0
    other.channel.queue_declare("new", durable=True)
    method, _, body = other.channel.basic_get("work")
    assert body == b"before"
    other.channel.basic_ack(method.delivery_tag)
    other.channel.queue_delete("new")
    assert (count(other.channel, "work"), other.told) == (0, [])

    broker.give_back()
    publisher.hears(["low on disk", "unblocked"])
    eventually("what was held is stored", lambda: count(other.channel, "q") == 1)
    assert other.channel.basic_get("q", auto_ack=True)[2] == b"held"
    assert api.get("health/checks/alarms") == {"status": "ok"}
    assert states(api) == dict.fromkeys(["publisher", "other"], "running")


def test_low_memory_blocks_who_publishes_after_a_message_and_ends_with_its_cause(own):
    broker = own(Broker("--memory", "16MiB"))
    api = Api(broker)
    publisher, other = Publisher(broker, "publisher"), Publisher(broker, "other")
    other.channel.queue_declare("q", durable=True)
    hogs = []

    def is_low():
        # Each holds a little in a transaction that it does not end: too little to be let go for it.
        hog = connect(broker)
        channel = hog.channel()
        channel.tx_select()
        channel.basic_publish("", "q", bytes(100_000))
        hogs.append(hog)
        return api.get("nodes")[0]["mem_alarm"]
    eventually("the alarm", is_low)
    status, body = api.ask("GET", "health/checks/alarms")
    assert (status, [one["resource"] for one in body["alarms"]]) == (503, ["memory"])
    publisher.channel.basic_publish("", "q", b"taken", PERSISTENT)
    publisher.hears(["low on memory"])
    publisher.channel.basic_publish("", "q", b"held", PERSISTENT)
    assert {states(api)[one] for one in ["publisher", "other"]} == {"blocked", "blocking"}
    eventually("the first is taken", lambda: count(other.channel, "q") == 1)
    assert all(hog.is_open for hog in hogs)
    for hog in hogs:
        hog.close()
    publisher.hears(["low on memory", "unblocked"])
    eventually("what was held is stored", lambda: count(other.channel, "q") == 2)
    assert api.get("health/checks/alarms") == {"status": "ok"}
