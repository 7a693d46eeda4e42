"""One log: what one tongue writes the other reads."""

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from fourfold import eventually
from kit import PERSISTENT, Inbox, connect, count, get, put


@pytest.fixture(autouse=True)
def needs_both(broker):
    if broker.peer:
        pytest.skip("no peer speaks both tongues")


def create(broker, topic, partitions):
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=30)


def produce(broker, topic, messages, **config):
    producer = Producer({"bootstrap.servers": broker.kafka} | {k.replace("_", "."): v for k, v in config.items()})
    for message in messages:
        producer.produce(topic, **message)
    assert producer.flush(30) == 0


def read(broker, topic, total, partitions=1):
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "cross", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    got = []

    def all_there():
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            got.append(message)
        return len(got) >= total
    eventually(f"{total} messages in {topic}", all_there)
    consumer.close()
    return got


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_two_workers_share_a_topic_that_kafka_writes(broker, name, codec):
    create(broker, name, 4)
    workers = []
    for _ in range(2):
        channel = connect(broker).channel()
        channel.queue_declare(name + "-work", durable=True, arguments={"x-topic": name})
        channel.basic_qos(prefetch_count=10)
        workers.append(Inbox(channel, name + "-work"))
    sent = [{"key": f"{n % 16}".encode(), "value": f"{n}".encode(), "headers": [("n", f"{n}".encode())]}
            for n in range(200)]
    produce(broker, name, sent, compression_type=codec, linger_ms=20)
    acked = set()

    def work():
        for worker in workers:
            worker.channel.connection.process_data_events(time_limit=0.05)
            for method, _, _ in worker.got:
                if (worker, method.delivery_tag) not in acked:
                    acked.add((worker, method.delivery_tag))
                    worker.channel.basic_ack(method.delivery_tag)
        return len(acked) >= 200
    eventually("all are worked on", work)
    got = [one for worker in workers for one in worker.got]
    assert sorted(int(body) for _, _, body in got) == list(range(200)), "each once"
    assert all(worker.got for worker in workers), "both had work"
    for method, properties, body in got:
        assert method.routing_key == f"{int(body) % 16}"
        assert properties.headers["n"] == body.decode()
        assert properties.timestamp is not None
    assert count(workers[0].channel, name + "-work") == 0
    for worker in workers:
        worker.channel.connection.close()


def test_what_a_worker_gives_back_comes_again_and_kafka_readers_do_not_notice(broker, name):
    create(broker, name, 1)
    channel = connect(broker).channel()
    channel.queue_declare(name + "-work", durable=True, arguments={"x-topic": name})
    produce(broker, name, [{"value": b"a"}, {"value": b"b"}, {"value": b"c"}])
    first = get(channel, name + "-work")
    channel.basic_nack(first[0].delivery_tag, requeue=True)
    method, _, body = get(channel, name + "-work")
    assert (method.redelivered, body) == (True, b"a")
    channel.basic_ack(method.delivery_tag)
    assert get(channel, name + "-work")[2] == b"b"
    channel.connection.close()
    assert [m.value() for m in read(broker, name, 3)] == [b"a", b"b", b"c"]


def test_kafka_reads_what_amqp_publishes_with_key_headers_and_time(broker, name):
    create(broker, name, 3)
    channel = connect(broker).channel()
    channel.confirm_delivery()
    for n in range(30):
        put(channel, f"key-{n % 5}", b"%d" % n, exchange=name, properties=pika.BasicProperties(
            delivery_mode=2, timestamp=1_600_000_000 + n, headers={"text": "yes", "number": 7}))
    channel.connection.close()
    got = read(broker, name, 30, partitions=3)
    by_key = {}
    for message in got:
        n = int(message.value())
        assert message.key() == f"key-{n % 5}".encode()
        assert message.timestamp()[1] == (1_600_000_000 + n) * 1000
        headers = dict(message.headers())
        assert headers["text"] == b"yes" and headers["number"] == b"7"
        by_key.setdefault(message.key(), []).append((message.partition(), n))
    for places in by_key.values():
        assert len({partition for partition, _ in places}) == 1, "one key, one partition"
        assert [n for _, n in places] == sorted(n for _, n in places), "in order"


def test_both_tongues_write_one_topic_and_offsets_stay_the_same_on_every_reading(broker, name):
    create(broker, name, 1)
    channel = connect(broker).channel()
    channel.confirm_delivery()
    for n in range(0, 40, 4):
        put(channel, "k", b"%d" % n, b"%d" % (n + 1), exchange=name, properties=PERSISTENT)
        produce(broker, name, [{"value": b"%d" % (n + 2)}, {"value": b"%d" % (n + 3)}])
    channel.connection.close()
    wanted = [(n, b"%d" % n) for n in range(40)]
    for _ in range(2):
        assert [(m.offset(), m.value()) for m in read(broker, name, 40)] == wanted


def test_a_queue_declared_over_a_topic_without_saying_so_is_refused(broker, name):
    create(broker, name, 3)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        connect(broker).channel().queue_declare(name, durable=True)
    assert closed.value.reply_code == 406
    assert "x-topic" in closed.value.reply_text


def test_an_acknowledged_share_of_a_topic_survives_a_kill(own_broker, name):
    create(own_broker, name, 1)
    channel = connect(own_broker).channel()
    channel.queue_declare(name + "-work", durable=True, arguments={"x-topic": name})
    produce(own_broker, name, [{"value": b"%d" % n} for n in range(10)], acks="all")
    for _ in range(4):
        channel.basic_ack(get(channel, name + "-work")[0].delivery_tag)
    assert count(channel, name + "-work") == 6
    own_broker.kill()
    own_broker.start()
    channel = connect(own_broker).channel()
    inbox = Inbox(channel, name + "-work")
    inbox.wait(6)
    assert inbox.bodies == [b"%d" % n for n in range(4, 10)]


def test_a_topic_feeds_the_queues_bound_to_it(broker, channel, name):
    create(broker, name, 3)
    produce(broker, name, [{"key": b"a.1", "value": b"before the binding"}])
    bindings = [("by-key", "a.*", None), ("all", "#", None), ("by-header", "", {"x-match": "all", "color": "red"})]
    for queue, key, arguments in bindings:
        channel.queue_declare(f"{name}-{queue}", durable=True)
        channel.queue_bind(f"{name}-{queue}", name, key, arguments)
    sent = [{"key": key, "value": value, "headers": headers, "timestamp": 1_700_000_000_000}
            for key, value, headers in [(b"a.1", b"1", [("color", b"red")]), (b"b.1", b"2", [("color", b"blue")]),
                                        (b"a.b.c", b"3", []), (None, b"4", [("color", b"red")])]]
    produce(broker, name, sent, compression_type="lz4")
    channel.basic_publish(name, "a.9", b"5", pika.BasicProperties(headers={"color": "red"}, priority=3))
    got = {}
    for queue, total in [("by-key", 2), ("all", 5), ("by-header", 3)]:
        eventually(f"{total} in {queue}", lambda: count(channel, f"{name}-{queue}") == total)
        got[queue] = [get(channel, f"{name}-{queue}", auto_ack=True) for _ in range(total)]
    assert sorted(body for _, _, body in got["by-key"]) == [b"1", b"5"]
    assert sorted(body for _, _, body in got["all"]) == [b"1", b"2", b"3", b"4", b"5"]
    assert sorted(body for _, _, body in got["by-header"]) == [b"1", b"4", b"5"]
    for method, properties, body in got["by-key"]:
        assert method.exchange == name and method.routing_key == ("a.1" if body == b"1" else "a.9")
        assert properties.headers == {"color": "red"}
        assert body == b"5" or properties.timestamp == 1_700_000_000


def test_a_feed_gives_each_message_once_through_kills(own_broker, name):
    create(own_broker, name, 2)
    channel = connect(own_broker).channel()
    channel.queue_declare("fed", durable=True)
    channel.queue_bind("fed", name, "#")
    for round in range(3):
        produce(own_broker, name, [{"key": f"{n}".encode(), "value": f"{round}-{n}".encode()} for n in range(500)])
        own_broker.kill()
        own_broker.start()
    channel = connect(own_broker).channel()
    eventually("all are fed", lambda: count(channel, "fed") == 1500)
    bodies = [get(channel, "fed", auto_ack=True)[2] for _ in range(1500)]
    assert sorted(bodies) == sorted(f"{round}-{n}".encode() for round in range(3) for n in range(500))
    assert count(channel, "fed") == 0


def test_the_routing_key_picks_the_partition_as_kafka_does(broker, channel, name):
    create(broker, name, 10)
    channel.confirm_delivery()
    for key in ["order-1", "order-2", "abc"]:
        channel.basic_publish(name, key, key, PERSISTENT)
    for n in range(30):
        channel.basic_publish(name, "", f"{n}", PERSISTENT)
    got = read(broker, name, 33, partitions=10)
    keyed = {message.key().decode(): message.partition() for message in got if message.key()}
    assert keyed == {"order-1": 6, "order-2": 3, "abc": 7}
    assert len({message.partition() for message in got if not message.key()}) == 10, "without a key they take turns"
