"""Policies acting on live queues and exchanges, and definitions, over the management API: the same against the peer."""

import base64
import hashlib
import http.client
import json
import time
import urllib.parse

import pika
import pytest

from fourfold import eventually
from kit import PERSISTENT, connect, count, get, put


class Api:
    """RabbitMQ's management API as requests of the standard library."""

    def __init__(self, broker):
        self.port = broker.amqp_port + 10000 if "amqp" in broker.peer else broker.ports["http"]

    def ask(self, method, path, body=None, login="guest:guest"):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        token = base64.b64encode(login.encode()).decode()
        headers = {"Authorization": "Basic " + token, "Content-Type": "application/json"}
        client.request(method, "/api/" + path, None if body is None else json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, json.loads(text) if text.strip() else None

    def done(self, *asked):
        status, body = self.ask(*asked)
        assert status < 300, (asked, status, body)
        return body

    def policy(self, name, pattern, definition, operator=False, **more):
        noun = "operator-policies" if operator else "policies"
        self.done("PUT", f"{noun}/%2F/{name}", {"pattern": pattern, "definition": definition, **more})

    def gone(self, name, operator=False):
        self.done("DELETE", f"{'operator-policies' if operator else 'policies'}/%2F/{name}")


@pytest.fixture
def api(broker):
    return Api(broker)


@pytest.fixture
def ruled(api, name):
    """Puts policies for queues and exchanges whose names begin with the test's; they go with it."""
    made = []

    def rule(definition, operator=False, **more):
        api.policy(name, f"^{name}", definition, operator, **more)
        made.append(operator)
    yield rule
    for operator in set(made):
        api.ask("DELETE", f"{'operator-policies' if operator else 'policies'}/%2F/{name}")


def becomes(channel, queue, expected):
    eventually(f"{queue} holds {expected}", lambda: count(channel, queue) == expected)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_length_drops_heads_at_once_and_ends_with_its_policy(channel, api, ruled, name, kind):
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    put(channel, name, *(b"%d" % number for number in range(10)), properties=PERSISTENT)
    becomes(channel, name, 10)
    ruled({"max-length": 4}, **{"apply-to": "queues"})
    becomes(channel, name, 4)
    assert get(channel, name, auto_ack=True)[2] == b"6", "the oldest went"
    api.gone(name)
    # The peer's queues act by a change of policies a moment later.
    eventually("it is not ruled", lambda: api.done("GET", f"queues/%2F/{name}").get("policy") in (None, ""))
    put(channel, name, *(b"x" for _ in range(7)), properties=PERSISTENT)
    becomes(channel, name, 10)
    channel.queue_delete(name)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_length_in_bytes_drops_heads_at_once_of_what_is_ready(channel, connection, api, ruled, name, kind):
    """Bodies count, nothing else of a message; what is in flight does not."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    heavy = pika.BasicProperties(delivery_mode=2, headers={"big": "h" * 500})
    put(channel, name, *(b"%010d" % number for number in range(10)), properties=heavy)
    becomes(channel, name, 10)
    held = [get(channel, name)[0].delivery_tag for _ in range(3)]
    ruled({"max-length-bytes": 45}, **{"apply-to": "queues"})
    becomes(channel, name, 4)
    channel.basic_ack(held[0])
    channel.basic_nack(held[1])
    if kind == "classic":
        # What comes back is the oldest, and one too many; the peer looks again when something is published.
        put(channel, name, b"%010d" % 10, properties=heavy)
        becomes(channel, name, 4)
        assert get(channel, name, auto_ack=True)[2] == b"%010d" % 7
    channel.queue_delete(name)


def test_of_a_full_queue_that_was_so_before_its_limit_of_bytes_more_is_refused(channel, ruled, name):
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    put(channel, name, *(b"0123456789" for _ in range(10)), properties=PERSISTENT)
    ruled({"max-length-bytes": 45, "overflow": "reject-publish"}, **{"apply-to": "queues"})

    def refused():
        try:
            put(channel, name, b"more", properties=PERSISTENT)
        except pika.exceptions.NackError:
            return True
    eventually("more is refused", refused)  # the peer's queues act by a change of policies a moment later
    # The peer, 3.10, drops heads to the limit once although it is to refuse; here what was there stays.
    left = count(channel, name)
    assert refused() and count(channel, name) == left
    channel.queue_delete(name)


def test_a_length_in_bytes_counts_what_was_there_also_through_a_restart_and_a_kill(own_broker):
    with connect(own_broker) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        put(channel, "q", *(b"x" * 100 for _ in range(3000)), properties=PERSISTENT)
        Api(own_broker).policy("p", "^q$", {"max-length-bytes": 100_000}, **{"apply-to": "queues"})
        becomes(channel, "q", 1000)
    for end, most in [(own_broker.stop, 700), (own_broker.kill, 400)]:
        end()
        own_broker.start()
        with connect(own_broker) as connection:
            channel = connection.channel()
            assert count(channel, "q") == most + 300
            channel.confirm_delivery()
            Api(own_broker).policy("p", "^q$", {"max-length-bytes": most * 100}, **{"apply-to": "queues"})
            becomes(channel, "q", most)
            put(channel, "q", b"x" * 100, properties=PERSISTENT)
            becomes(channel, "q", most)


def test_messages_published_under_a_time_to_live_die_of_it(channel, ruled, name):
    ruled({"message-ttl": 200}, **{"apply-to": "queues"})
    channel.queue_declare(name)
    put(channel, name, b"x")
    becomes(channel, name, 0)


def test_an_unused_queue_ends_when_a_policy_says_so(channel, ruled, connection, name):
    channel.queue_declare(name)
    ruled({"expires": 500}, **{"apply-to": "queues"})
    time.sleep(2)  # asking would be a use
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare(name, passive=True)
    assert closed.value.reply_code == 404


def test_of_numbers_the_smallest_holds(channel, api, ruled, name):
    for operator, policy, argument, left in [(3, 5, 7, 3), (9, 5, 7, 5), (9, 8, 2, 2)]:
        ruled({"max-length": operator}, operator=True, **{"apply-to": "queues"})
        ruled({"max-length": policy}, **{"apply-to": "queues"})
        channel.queue_declare(name, arguments={"x-max-length": argument})
        put(channel, name, *(b"x" for _ in range(12)))
        becomes(channel, name, left)
        channel.queue_delete(name)


def test_the_policy_of_the_highest_priority_rules_and_is_shown(channel, api, name):
    channel.queue_declare(name)
    api.policy(name + "-low", f"^{name}", {"max-length": 5}, priority=1)
    api.policy(name + "-high", f"^{name}$", {"max-length": 2}, priority=7)
    put(channel, name, *(b"x" for _ in range(9)))
    becomes(channel, name, 2)

    def shown():
        queue = api.done("GET", f"queues/%2F/{name}")
        return queue.get("policy"), queue.get("effective_policy_definition")
    eventually("it is shown", lambda: shown() == (name + "-high", {"max-length": 2}))
    api.gone(name + "-high")
    eventually("the other rules", lambda: shown() == (name + "-low", {"max-length": 5}))
    api.gone(name + "-low")
    channel.queue_delete(name)


def test_dead_letters_and_alternates_go_where_a_policy_says(channel, api, ruled, name):
    dead = "dead-" + name
    channel.queue_declare(dead)
    channel.queue_declare(name)
    put(channel, name, b"x")
    ruled({"dead-letter-exchange": "", "dead-letter-routing-key": dead}, **{"apply-to": "queues"})
    eventually("it is ruled", lambda: api.done("GET", f"queues/%2F/{name}").get("policy") == name)
    method = get(channel, name)[0]
    channel.basic_reject(method.delivery_tag, requeue=False)
    _, properties, _ = get(channel, dead, auto_ack=True)
    assert properties.headers["x-first-death-queue"] == name
    rest = "rest-" + name
    channel.exchange_declare(name, "direct")
    channel.exchange_declare(rest, "fanout")
    channel.queue_bind(dead, rest)
    ruled({"alternate-exchange": rest}, **{"apply-to": "exchanges"})

    def routed():
        put(channel, "nowhere", b"x", exchange=name)
        return count(channel, dead) > 0
    eventually("the alternate takes it", routed)
    channel.exchange_delete(name)
    channel.exchange_delete(rest)
    channel.queue_delete(dead)


BAD = [
    ({}, "[{key_missing,pattern},{key_missing,definition}]"),
    ({"pattern": "a", "definition": {}}, "no policy provided"),
    ({"pattern": "a", "definition": {"message-ttl": -1}}, "-1 is not a valid message TTL"),
    ({"pattern": "a", "definition": {"expires": 0}}, "0 is not a valid queue expiry"),
    ({"pattern": "(", "definition": {"expires": 1}}, "pattern should be regular expression but is invalid"),
    ({"pattern": "a", "definition": {"nope": 1}}, "are not recognised policy settings"),
    ({"pattern": "a", "definition": {"expires": 1}, "apply-to": "zz"}, "apply-to 'zz' unrecognised"),
    ({"pattern": "a", "definition": {"expires": 1}, "priority": "x"}, "priority should be a number"),
]


@pytest.mark.parametrize("body, why", BAD, ids=[why for _, why in BAD])
def test_a_bad_policy_is_refused_in_the_originals_words(api, name, body, why):
    status, refused = api.ask("PUT", f"policies/%2F/{name}", body)
    assert status == 400 and why in refused["reason"], refused
    assert api.ask("GET", f"policies/%2F/{name}")[0] == 404
    assert api.ask("DELETE", f"policies/%2F/{name}")[0] == 404


def test_policies_act_as_before_after_a_restart_and_a_kill(own_broker):
    api = Api(own_broker)
    api.policy("p", "^q", {"max-length": 3}, **{"apply-to": "queues"})
    api.policy("gone", "^q", {"max-length": 1}, priority=9, **{"apply-to": "queues"})
    api.gone("gone")
    with connect(own_broker) as connection:
        connection.channel().queue_declare("q", durable=True)
    for end in (own_broker.stop, own_broker.kill):
        end()
        own_broker.start()
        api = Api(own_broker)
        assert [one["name"] for one in api.done("GET", "policies")] == ["p"]
        with connect(own_broker) as connection:
            channel = connection.channel()
            put(channel, "q", *(b"x" for _ in range(9)), properties=PERSISTENT)
            becomes(channel, "q", 3)


def user(name, algorithm):
    """A user as another server exports them, with the password `secret`."""
    digest = getattr(hashlib, algorithm)(b"salt" + b"secret").digest()
    return {"name": name, "password_hash": base64.b64encode(b"salt" + digest).decode(), "tags": ["administrator"],
            "hashing_algorithm": f"rabbit_password_hashing_{algorithm}", "limits": {}}


def definitions(name):
    users = [user(f"{name}-{algorithm}", algorithm) for algorithm in ("sha256", "sha512", "md5")]
    def of_vhost(**fields):
        return {"vhost": name, **fields}
    lasting = {"durable": True, "auto_delete": False}
    return {
        "users": users,
        "vhosts": [{"name": name}],
        "permissions": [of_vhost(user=one["name"], configure=".*", write="^q", read="") for one in users],
        "topic_permissions": [of_vhost(user=users[0]["name"], exchange="amq.topic", write="^a", read=".*")],
        "parameters": [of_vhost(component="vhost-limits", name="limits", value={"max-queues": 10})],
        "policies": [of_vhost(name="p", pattern="^q", definition={"max-length": 5}, priority=3,
                              **{"apply-to": "queues"})],
        "queues": [of_vhost(name="q", **lasting, arguments={"x-message-ttl": 60000, "x-queue-type": "classic"}),
                   of_vhost(name="r", **lasting, arguments={"x-queue-type": "quorum"})],
        "exchanges": [of_vhost(name="e", type="topic", internal=False, **lasting,
                               arguments={"alternate-exchange": "f"}),
                      of_vhost(name="f", type="headers", internal=True, **lasting, arguments={})],
        "bindings": [of_vhost(source="e", destination="q", destination_type="queue", routing_key="a.*", arguments={}),
                     of_vhost(source="e", destination="f", destination_type="exchange", routing_key="#",
                              arguments={}),
                     of_vhost(source="f", destination="r", destination_type="queue", routing_key="",
                              arguments={"x-match": "all", "n": 1})],
    }


def test_definitions_come_back_as_they_went_in_and_their_users_log_in(broker, api, name):
    given = definitions(name)
    assert api.ask("POST", "definitions", given) == (204, None)
    assert api.ask("POST", "definitions", given) == (204, None), "doing it twice changes nothing"
    got = api.done("GET", "definitions")
    for section, objects in given.items():
        for one in objects:
            same = [other for other in got[section] if one.items() <= other.items()]
            assert len(same) == 1, (section, one)
    for one in given["users"]:
        assert api.ask("GET", "whoami", None, one["name"] + ":secret")[0] == 200
        assert api.ask("GET", "whoami", None, one["name"] + ":wrong")[0] == 401
    login = pika.PlainCredentials(given["users"][0]["name"], "secret")
    with connect(broker, virtual_host=name, credentials=login) as connection:
        assert connection.is_open
    part = api.done("GET", "definitions/" + urllib.parse.quote(name))
    assert {queue["name"] for queue in part["queues"]} == {"q", "r"} and "vhost" not in part["queues"][0]
    other = name + "-copy"
    api.done("PUT", "vhosts/" + other)
    objects = {key: part[key] for key in ("queues", "exchanges", "bindings")}
    assert api.ask("POST", "definitions/" + other, objects)[0] == 204
    assert {queue["name"] for queue in api.done("GET", "queues/" + other)} == {"q", "r"}
    for vhost in (name, other):
        api.done("DELETE", "vhosts/" + vhost)
    for one in given["users"]:
        api.done("DELETE", "users/" + one["name"])


def test_definitions_that_cannot_be_taken_are_refused(api, name):
    assert api.ask("POST", "definitions", [])[0] == 400
    missing = {"queues": [{"vhost": name + "-nowhere", "name": "q", "durable": True, "arguments": {}}]}
    assert api.ask("POST", "definitions", missing)[0] == 400
    bad = {"policies": [{"vhost": "/", "name": name, "pattern": "(", "definition": {"max-length": 5}}]}
    assert api.ask("POST", "definitions", bad)[0] == 400
    assert api.ask("GET", "definitions/" + name + "-nowhere")[0] == 400
