"""What aio-pika is promised: robust connections above all, and the cases that other clients show too, in its words."""

import asyncio

import aio_pika
import aiormq
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message

SECONDS = 30


def url(broker):
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/"


def run(work):
    """Runs `work` to its end, but not for ever."""
    return asyncio.run(asyncio.wait_for(work, 4 * SECONDS))


def persistent(body, **properties):
    return Message(body, delivery_mode=DeliveryMode.PERSISTENT, **properties)


async def take(queue, count):
    """The next `count` messages by a consumer, acknowledged."""
    bodies = []
    async with queue.iterator(timeout=SECONDS) as messages:
        async for message in messages:
            async with message.process():
                bodies.append(message.body)
            if len(bodies) == count:
                return bodies


def test_messages_keep_properties_headers_and_order(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(name, durable=True)
            headers = {"text": "é", "int": -500, "large": 1 << 40, "float": 0.5, "flag": True, "none": None,
                       "list": [1, "a"], "table": {"in": {"deep": 1}}, "bytes": bytearray(b"\xff\x00")}
            sent = persistent(b"\x00body", headers=headers, content_type="application/json", priority=7,
                              correlation_id="c", reply_to="r", message_id="m", type="t", app_id="a", user_id="guest")
            await channel.default_exchange.publish(sent, name)
            got = await queue.get(timeout=SECONDS)
            assert (got.body, got.content_type, got.priority) == (b"\x00body", "application/json", 7)
            assert (got.correlation_id, got.reply_to, got.message_id) == ("c", "r", "m")
            assert (got.type, got.app_id, got.user_id, got.redelivered) == ("t", "a", "guest", False)
            shown = dict(got.headers)
            assert {key: shown[key] for key in headers if key not in ("bytes", "float")} == \
                {key: headers[key] for key in headers if key not in ("bytes", "float")}
            assert bytes(shown["bytes"]) == b"\xff\x00"
            await got.ack()
    run(work())


def test_a09_an_empty_header_table_and_none_stay_apart(broker, name):
    async def work():
        connection = await aiormq.connect(url(broker))
        channel = await connection.channel()
        await channel.queue_declare(name)
        for headers in (None, {}):
            properties = aiormq.spec.Basic.Properties(headers=headers)
            await channel.basic_publish(b"", routing_key=name, properties=properties)
        got = [await channel.basic_get(name, no_ack=True) for _ in range(2)]
        assert [one.header.properties.headers for one in got] == [None, {}]
        assert [one.body for one in got] == [b"", b""]
        await connection.close()
    run(work())


def test_a11_what_nobody_takes_comes_back_before_its_confirm(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            with pytest.raises(aio_pika.exceptions.DeliveryError):
                await channel.default_exchange.publish(Message(b"x"), name, mandatory=True)
            assert (await channel.default_exchange.publish(Message(b"x"), name, mandatory=False)) is not None
    run(work())


def test_a14_a_second_ack_closes_the_channel_and_gives_the_rest_back(broker, name):
    async def work():
        connection = await aiormq.connect(url(broker))
        channel = await connection.channel()
        await channel.queue_declare(name)
        for body in (b"1", b"2"):
            await channel.basic_publish(body, routing_key=name)
        tags = [(await channel.basic_get(name)).delivery_tag for _ in range(2)]
        await channel.basic_ack(tags[0])
        await channel.basic_ack(tags[0])
        with pytest.raises(aiormq.exceptions.ChannelPreconditionFailed) as closed:
            await channel.basic_qos()
        assert "unknown delivery tag 1" in str(closed.value)
        channel = await connection.channel()
        again = await channel.basic_get(name, no_ack=True)
        assert (again.body, again.redelivered) == (b"2", True)
        await connection.close()
    run(work())


def test_a17_a_consumer_is_told_when_its_queue_goes(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel, other = await connection.channel(), await connection.channel()
            queue = await channel.declare_queue(name)
            told = asyncio.get_running_loop().create_future()

            async def consume():
                try:
                    async with queue.iterator() as messages:
                        async for _ in messages:
                            pass
                    told.set_result("ended")
                except Exception as error:  # which one is the client's choice
                    told.set_result(error)
            consumer = asyncio.create_task(consume())
            await asyncio.sleep(0)
            while (await other.declare_queue(name, passive=True)).declaration_result.consumer_count == 0:
                await asyncio.sleep(0.02)
            assert (await other.queue_delete(name)) is not None
            with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
                await other.declare_queue(name, passive=True)
            consumer.cancel()
    run(work())


def test_topic_headers_and_exchange_bindings(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel()
            topic = await channel.declare_exchange(f"{name}-t", ExchangeType.TOPIC, durable=True)
            headers = await channel.declare_exchange(f"{name}-h", ExchangeType.HEADERS, durable=True)
            queue = await channel.declare_queue(name, durable=True)
            await headers.bind(topic, routing_key="a.#")
            await queue.bind(headers, arguments={"x-match": "any", "n": 1})
            await queue.bind(topic, "b.*")
            for key, n in [("a", 1), ("a.b", 2), ("a.b.c", 1), ("b.c", 2), ("c", 1)]:
                await topic.publish(persistent(key.encode(), headers={"n": n}), key, mandatory=False)
            assert await take(queue, 3) == [b"a", b"a.b.c", b"b.c"]
    run(work())


def test_a_transaction_is_committed_or_rolled_back(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(name, durable=True)
            async with channel.transaction():
                await channel.default_exchange.publish(persistent(b"kept"), name)
            with pytest.raises(KeyError):
                async with channel.transaction():
                    await channel.default_exchange.publish(persistent(b"forgotten"), name)
                    raise KeyError
            assert await take(queue, 1) == [b"kept"]
            assert (await queue.get(fail=False)) is None
    run(work())


def test_prefetch_bounds_what_is_unacknowledged(broker, name):
    async def work():
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=3)
            queue = await channel.declare_queue(name)
            for n in range(10):
                await channel.default_exchange.publish(Message(b"%d" % n), name)
            got = []
            await queue.consume(lambda message: got.append(message))
            while len(got) < 3:
                await asyncio.sleep(0.02)
            assert (await channel.declare_queue(name, passive=True)).declaration_result.message_count == 7
            assert [message.body for message in got] == [b"0", b"1", b"2"]
            await got[2].ack(multiple=True)
            while len(got) < 6:
                await asyncio.sleep(0.02)
    run(work())


def test_a_robust_client_lives_through_a_kill_and_loses_nothing_confirmed(own_broker, name):
    async def work():
        connection = await aio_pika.connect_robust(url(own_broker), reconnect_interval=0.2)
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True)
        for n in range(100):
            await channel.default_exchange.publish(persistent(b"%d" % n), name)
        own_broker.kill()
        own_broker.start()
        # Until the client has noticed and is there again; before, it may tell what it had been told long ago.
        while True:
            try:
                depth = (await channel.declare_queue(name, durable=True, passive=True)).declaration_result
                if depth.message_count == 100:
                    break
            except (aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError):
                pass
            await asyncio.sleep(0.1)
        assert await take(queue, 100) == [b"%d" % n for n in range(100)]
        await connection.close()
    run(work())
