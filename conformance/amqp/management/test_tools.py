"""Tools that lean on the API: Flower beside Celery, AMQPStorm's management client, and Prometheus."""

import asyncio
import urllib.request

import pika
import pytest
from amqpstorm.management import ApiError, ManagementApi
from celery import Celery
from flower.utils.broker import Broker as FlowerBroker
from prometheus_client.parser import text_string_to_metric_families

from fourfold import eventually
from tools import connect, management_port, prometheus_url


def test_flower_shows_how_long_celerys_queues_are(broker, name):
    app = Celery(name, broker=f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//")
    app.conf.task_default_queue = name
    for _ in range(3):
        app.send_task("some.task", retry=False)
    api = f"http://guest:guest@127.0.0.1:{management_port(broker)}/api/"
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//"

    def queues():
        return asyncio.run(asked())

    async def asked():
        flower = FlowerBroker(url, http_api=api, broker_use_ssl=None)
        return await asyncio.wait_for(flower.queues([name]), 30)

    found = eventually("three tasks", lambda: [q for q in queues() if q.get("messages") == 3])
    assert (found[0]["name"], found[0]["messages_ready"], found[0]["messages_unacknowledged"]) == (name, 3, 0)


def test_amqpstorms_management_client_manages(broker, name):
    api = ManagementApi(f"http://127.0.0.1:{management_port(broker)}", "guest", "guest")
    assert api.aliveness_test("/") == {"status": "ok"}
    api.queue.declare(name, durable=True)
    api.exchange.declare(name, exchange_type="direct", durable=True)
    api.queue.bind(queue=name, exchange=name, routing_key="k", arguments=None)
    api.basic.publish(body="hello", routing_key="k", exchange=name, properties={"message_id": "m"})
    got = eventually("the message", lambda: api.basic.get(queue=name, requeue=False))
    assert (got[0].body, got[0].message_id) == ("hello", "m")
    assert [one["routing_key"] for one in api.queue.bindings(name) if one["source"] == name] == ["k"]
    api.queue.unbind(queue=name, exchange=name, routing_key="k")
    with pytest.raises(ApiError):
        api.queue.get(name + "-none")
    api.queue.delete(name)
    api.exchange.delete(name)
    api.user.create(name, "password", tags="monitoring")
    api.user.set_permission(name, "/", ".*", ".*", ".*")
    assert api.user.get_permission(name, "/")["configure"] == ".*"
    api.user.delete(name)


def scrape(broker, path="/metrics"):
    with urllib.request.urlopen(prometheus_url(broker, path), timeout=30) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {sample.name: sample for family in families for sample in family.samples}, families


def test_prometheus_reads_the_names_that_dashboards_use(broker, name):
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=2))
    wanted = """rabbitmq_connections rabbitmq_channels rabbitmq_consumers rabbitmq_queues rabbitmq_queue_messages
rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked rabbitmq_connections_opened_total
rabbitmq_channels_opened_total rabbitmq_queues_declared_total rabbitmq_queues_created_total rabbitmq_queues_deleted_total
rabbitmq_process_resident_memory_bytes rabbitmq_resident_memory_limit_bytes rabbitmq_disk_space_available_bytes
rabbitmq_process_open_fds rabbitmq_process_max_fds rabbitmq_process_open_tcp_sockets rabbitmq_identity_info
rabbitmq_build_info rabbitmq_alarms_memory_used_watermark rabbitmq_alarms_free_disk_space_watermark
rabbitmq_global_messages_received_total rabbitmq_global_messages_routed_total rabbitmq_global_messages_confirmed_total
rabbitmq_global_messages_delivered_total rabbitmq_global_messages_acknowledged_total
rabbitmq_global_messages_redelivered_total rabbitmq_channel_messages_published_total""".split()
    names = eventually("all names", lambda: (n := scrape(broker)[0]) and set(wanted) <= set(n) and n)
    assert names["rabbitmq_queues"].value >= 1 and names["rabbitmq_connections"].value >= 1

    def ready():
        _, families = scrape(broker, "/metrics/per-object")
        return [sample.value for family in families for sample in family.samples
                if sample.name == "rabbitmq_queue_messages_ready" and sample.labels.get("queue") == name]
    eventually("the queue's own figure", lambda: ready() == [1.0])
    detailed, _ = scrape(broker, "/metrics/detailed?family=queue_coarse_metrics")
    assert "rabbitmq_detailed_queue_messages_ready" in detailed
    connection.close()


def test_a_scrape_shows_the_first_queues_one_by_one_and_counts_the_rest(own_broker):
    if own_broker.peer:
        pytest.skip("our own names")
    connection = connect(own_broker)
    channel = connection.channel()
    for number in range(1005):
        channel.queue_declare(f"q{number:04}")
    channel.basic_publish("", "q1004", b"not shown by itself")
    eventually("all are counted", lambda: scrape(own_broker)[0]["fourfold_queues_ready"].value == 1)

    def shown(path):
        names, families = scrape(own_broker, path)
        queues = [sample.labels["queue"] for family in families for sample in family.samples
                  if sample.name == "fourfold_queue_ready"]
        left = next(sample.value for family in families for sample in family.samples
                    if sample.name == "fourfold_objects_left_out" and sample.labels["kind"] == "queue")
        return names["fourfold_queues"].value, queues, left
    total, queues, left = shown("/metrics")
    assert (total, left) == (1005, 5) and queues == [f"q{number:04}" for number in range(1000)]
    assert shown("/metrics/per-object")[1][-1] == "q1004" and shown("/metrics/per-object")[2] == 0
    connection.close()
