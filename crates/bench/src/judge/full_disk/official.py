"""The official clients of the full disk judge: pika, librdkafka and kafka-python write until the disk is full and believe
nothing but their own acknowledgements. Arguments: Kafka's address, AMQP's port, HTTP's address. Told what to do by lines
on stdin, answers each with a line of JSON; an answer with "failed" ends the judge."""
import base64
import json
import sys
import threading
import time
import urllib.error
import urllib.request

import pika
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

KAFKA, AMQP, HTTP = sys.argv[1], int(sys.argv[2]), sys.argv[3]
QUEUE, WORK = "official", "official-work"
TOPICS = {"librdkafka": "official-librdkafka", "kafka-python": "official-kafka-python"}
PERSISTENT = pika.BasicProperties(delivery_mode=2)
WINDOW = 100
# A writer that gets no answer for this long, though it waits for some, is held up.
QUIET = 2.0


def body(number):
    return b"%012d" % number + bytes(1000)


def number_of(value):
    number = int(value[:12])
    if value != body(number):
        raise AssertionError(f"invented: {value[:40]!r}")
    return number


class Writer:
    """What a writer has sent and what came of it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.next, self.waiting, self.stored, self.refused = 0, set(), set(), set()
        self.moved = time.monotonic()
        self.goes = threading.Event()

    def number(self):
        with self.lock:
            number, self.next = self.next, self.next + 1
            self.waiting.add(number)
            return number

    def told(self, numbers, well):
        with self.lock:
            self.waiting -= numbers
            (self.stored if well else self.refused).update(numbers)
            self.moved = time.monotonic()

    def is_held(self):
        return bool(self.waiting) and time.monotonic() - self.moved > QUIET


def parameters(name):
    return pika.ConnectionParameters("127.0.0.1", AMQP, heartbeat=0, client_properties={"connection_name": name})


class Pika(Writer, threading.Thread):
    """Publishes with confirms, and not while its connection is blocked."""

    def __init__(self, first):
        Writer.__init__(self)
        threading.Thread.__init__(self, daemon=True)
        self.next, self.tags, self.blocked, self.said, self.closed = first, {}, None, [], False

    def run(self):
        self.connection = pika.SelectConnection(
            parameters("publisher"), on_open_callback=lambda one: one.channel(on_open_callback=self.ready),
            on_open_error_callback=self.ended, on_close_callback=self.ended)
        self.connection.add_on_connection_blocked_callback(self.block)
        self.connection.add_on_connection_unblocked_callback(self.unblock)
        self.connection.ioloop.start()

    def ended(self, *_):
        self.closed = True
        self.connection.ioloop.stop()

    def block(self, _, frame):
        self.blocked = frame.method.reason
        self.said.append(self.blocked)

    def unblock(self, *_):
        self.blocked = None
        self.said.append("unblocked")

    def ready(self, channel):
        self.channel, self.tag = channel, 0
        channel.confirm_delivery(self.answer, callback=lambda _: self.pump())

    def pump(self):
        while self.goes.is_set() and self.blocked is None and len(self.waiting) < WINDOW:
            self.tag += 1
            self.tags[self.tag] = self.number()
            self.channel.basic_publish("", QUEUE, body(self.tags[self.tag]), PERSISTENT)
        self.connection.ioloop.call_later(0.005, self.pump)

    def answer(self, frame):
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        tags = [one for one in self.tags if one <= tag] if multiple else [tag]
        self.told({self.tags.pop(one) for one in tags}, isinstance(frame.method, pika.spec.Basic.Ack))


class Librdkafka(Writer, threading.Thread):
    def __init__(self):
        Writer.__init__(self)
        threading.Thread.__init__(self, daemon=True)
        self.producer = Producer({"bootstrap.servers": KAFKA, "acks": "all", "enable.idempotence": True,
                                  "linger.ms": 1, "message.timeout.ms": 120000, "log_level": 0})

    def run(self):
        while True:
            while self.goes.is_set() and len(self.waiting) < WINDOW:
                number = self.number()
                self.producer.produce(TOPICS["librdkafka"], body(number), on_delivery=self.report(number))
            self.producer.poll(0.01)

    def report(self, number):
        return lambda error, _: self.told({number}, error is None)


class Python(Writer, threading.Thread):
    def __init__(self):
        Writer.__init__(self)
        threading.Thread.__init__(self, daemon=True)
        self.producer = KafkaProducer(bootstrap_servers=KAFKA, acks="all", enable_idempotence=True,
                                      delivery_timeout_ms=120000)

    def run(self):
        while True:
            while self.goes.is_set() and len(self.waiting) < WINDOW:
                number = self.number()
                sent = self.producer.send(TOPICS["kafka-python"], body(number))
                sent.add_callback(lambda _, number=number: self.told({number}, True))
                sent.add_errback(lambda _, number=number: self.told({number}, False))
            time.sleep(0.005)


def eventually(what, probe, seconds=30):
    end = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what()}")
        time.sleep(0.01)


def ask(path):
    request = urllib.request.Request(f"http://{HTTP}/api/{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def must(holds, what):
    if not holds:
        raise AssertionError(what)


class Judge:
    def prepare(self):
        admin = AdminClient({"bootstrap.servers": KAFKA})
        for made in admin.create_topics([NewTopic(topic, 1) for topic in TOPICS.values()]).values():
            made.result(30)
        self.other = pika.BlockingConnection(parameters("other"))
        channel = self.other.channel()
        for queue in (QUEUE, WORK):
            channel.queue_declare(queue, durable=True)
        for number in range(100):
            channel.basic_publish("", WORK, body(number), PERSISTENT)
        self.worked = 0
        self.pika, self.confirmed, self.sent = Pika(0), set(), 0
        self.kafka = {"librdkafka": Librdkafka(), "kafka-python": Python()}
        for one in self.writers():
            one.start()
        return {}

    def writers(self):
        return [self.pika, *self.kafka.values()]

    def fill(self):
        for one in self.writers():
            one.goes.set()
        eventually(lambda: f"the disk is full: {self.state()}", lambda: self.pika.blocked and
                   all(one.is_held() for one in self.writers()), 120)
        return self.state()

    def state(self):
        state = {name: len(one.stored) for name, one in self.kafka.items()}
        return state | {"pika": len(self.pika.stored), "nacked": len(self.pika.refused), "said": self.pika.said[-3:],
                        "waiting": [len(one.waiting) for one in self.writers()]}

    def full(self):
        """While the disk is full."""
        must(self.pika.said[-1] == "low on disk", self.pika.said)
        status, said = ask("health/checks/alarms")
        must((status, [one["resource"] for one in said["alarms"]]) == (503, ["disk"]), said)
        must(ask("nodes")[1][0]["disk_free_alarm"] is True, "the node's alarm")
        states = {one["user_provided_name"]: one["state"] for one in ask("connections")[1]
                  if one["protocol"] == "AMQP 0-9-1"}
        must(states == {"publisher": "blocked", "other": "blocking"}, states)
        channel = self.other.channel()
        for _ in range(10):
            method, _, got = channel.basic_get(WORK)
            must(number_of(got) == self.worked, f"message {number_of(got)} instead of {self.worked}")
            channel.basic_ack(method.delivery_tag)
            self.worked += 1
        left = channel.queue_declare(WORK, passive=True).method.message_count
        must(left == 100 - self.worked, f"{left} messages are left")
        channel.close()
        for topic in TOPICS.values():
            reader = self.reader()
            reader.assign([TopicPartition(topic, 0, 0)])
            got = reader.consume(10, 10)
            must([number_of(one.value()) for one in got] == list(range(10)), f"{topic} is not read")
            reader.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
            reader.close()
        return {}

    def reader(self):
        return Consumer({"bootstrap.servers": KAFKA, "group.id": "official", "enable.auto.commit": False,
                         "enable.partition.eof": False, "log_level": 0})

    def healed(self):
        """Space is back: all that waits is answered."""
        begun = time.monotonic()
        for one in self.writers():
            one.goes.clear()
        if not self.pika.closed:
            eventually(lambda: f"pika: {self.state()}", lambda: not self.pika.waiting and self.pika.blocked is None, 30)
        amqp = time.monotonic() - begun
        for name, one in self.kafka.items():
            eventually(lambda: f"{name}: {self.state()}", lambda: not one.waiting, 60)
            must(not one.refused, f"{name} gave up {len(one.refused)} messages")
        if not self.pika.closed:
            eventually(lambda: "the alarm ends", lambda: ask("health/checks/alarms")[0] == 200)
        return self.state() | {"amqp_ms": round(amqp * 1000), "kafka_ms": round((time.monotonic() - begun) * 1000)}

    def verify(self):
        """The broker was killed and is back: everything acknowledged is there, once and in order."""
        self.confirmed |= self.pika.stored
        old = self.pika
        self.pika = Pika(old.next)
        connection = pika.BlockingConnection(parameters("reader"))
        channel = connection.channel()
        count = channel.queue_declare(QUEUE, passive=True).method.message_count
        got = []
        if count:
            for _, _, value in channel.consume(QUEUE):
                got.append(number_of(value))
                if len(got) == count:
                    break
        connection.close()
        read = self.compare("pika", got, self.confirmed, old.next)
        for name, topic in TOPICS.items():
            reader = self.reader()
            reader.assign([TopicPartition(topic, 0, 0)])
            end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
            got = []
            while len(got) < end:
                got += [number_of(one.value()) for one in reader.consume(1000, 5)]
            reader.close()
            read += self.compare(name, got, self.kafka[name].stored, self.kafka[name].next)
        self.other = pika.BlockingConnection(parameters("other"))
        self.pika.start()
        return {"read_back": read}

    def compare(self, name, got, stored, sent):
        must(got == sorted(set(got)), f"{name}: reordered or doubled")
        must(stored <= set(got), f"{name}: lost: {sorted(stored - set(got))[:10]}")
        must(all(number < sent for number in got), f"{name}: invented")
        return len(got)


judge = Judge()
for line in sys.stdin:
    try:
        print(json.dumps(getattr(judge, line.strip())()), flush=True)
    except Exception as why:  # whatever it is, the judge says it
        print(json.dumps({"failed": f"{line.strip()}: {type(why).__name__}: {why}"}), flush=True)
