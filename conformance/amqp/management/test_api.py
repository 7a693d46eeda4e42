"""The API by plain HTTP: what monitors, Flower and other tools ask, with the codes and words of the original."""

import threading
import time

import pika
import pytest

from fourfold import eventually
from tools import Api, connect, quoted

PERSISTENT = pika.BasicProperties(delivery_mode=2)

QUEUE_FIELDS = """arguments auto_delete backing_queue_status consumer_capacity consumer_details consumer_utilisation consumers
deliveries durable effective_policy_definition exclusive exclusive_consumer_tag garbage_collection
head_message_timestamp idle_since incoming memory message_bytes message_bytes_paged_out message_bytes_persistent
message_bytes_ram message_bytes_ready message_bytes_unacknowledged messages messages_details messages_paged_out
messages_persistent messages_ram messages_ready messages_ready_details messages_ready_ram messages_unacknowledged
messages_unacknowledged_details messages_unacknowledged_ram name node operator_policy policy recoverable_slaves
reductions reductions_details single_active_consumer_tag state type vhost""".split()


def test_a_queue_has_the_fields_of_the_original(api, name):
    api.declare(name)
    queue = eventually("the fields", lambda: (q := api.get(f"queues/%2F/{name}")) and "messages" in q and q)
    assert set(QUEUE_FIELDS) <= set(queue), set(QUEUE_FIELDS) - set(queue)
    api.publish(name, "counted")
    eventually("its figures", lambda: "message_stats" in api.get(f"queues/%2F/{name}"))
    assert (queue["type"], queue["durable"], queue["vhost"]) == ("classic", True, "/")


def test_declaring_again_tells_what_differs(api, name):
    path = f"queues/%2F/{name}"
    assert api.ask("PUT", path, {"durable": True}) == (201, None)
    assert api.ask("PUT", path, {"durable": True}) == (204, None)
    reason = f"inequivalent arg 'durable' for queue '{name}' in vhost '/': received 'false' but current is 'true'"
    assert api.ask("PUT", path, {"durable": False}) == (400, {"error": "bad_request", "reason": reason})
    bad = {"durable": True, "arguments": {"x-message-ttl": "abc"}}
    reason = f"invalid arg 'x-message-ttl' for queue '{name}x' in vhost '/': \"expected integer, got longstr\""
    assert api.ask("PUT", path + "x", bad) == (400, {"error": "bad_request", "reason": reason})


@pytest.mark.parametrize("method, path, body, status, error, reason", [
    ("GET", "queues/%2F/none", None, 404, "Object Not Found", "Not Found"),
    ("GET", "nothing", None, 404, "Object Not Found", "Not Found"),
    ("PUT", "queues/%2F/amq.foo", {}, 401, "not_authorised", "Access refused."),
    ("PUT", "queues/nope/foo", {}, 404, "not_found", "vhost_not_found"),
    ("PUT", "queues/%2F/bad", b"{bad json", 400, "bad_request", "not_json"),
    ("PUT", "exchanges/%2F/bad", {"type": "nosuch"}, 400, "bad_request", "unknown exchange type 'nosuch'"),
    ("DELETE", "exchanges/%2F/amq.direct", None, 401, "not_authorised", "Access refused."),
    ("POST", "bindings/%2F/e/amq.topic/q/none", {}, 404, "not_found", "no queue 'none' in vhost '/'"),
    ("GET", "queues?page=1&page_size=600", None, 400, "invalid_pagination_parameters",
     "Invalid pagination parameters: page number 1, page size 600"),
    ("PUT", "users/someone", {"password": "p"}, 400, "bad_request", "tags_not_present"),
    ("PUT", "permissions/%2F/nobody", {"configure": "", "write": "", "read": ""}, 400, "bad_request",
     "vhost_or_user_not_found"),
    ("POST", "queues/%2F/none/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}, 404, "not_found",
     "NOT_FOUND - no queue 'none' in vhost '/'"),
    ("POST", "exchanges/%2F/none/publish",
     {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}, 400, "bad_request",
     "404 NOT_FOUND - no exchange 'none' in vhost '/'"),
])
def test_what_is_wrong_is_said_in_the_words_of_the_original(api, method, path, body, status, error, reason):
    assert api.ask(method, path, body) == (status, {"error": error, "reason": reason})


def test_a_published_message_is_got_with_all_its_properties(api, name):
    api.declare(name)
    properties = {"delivery_mode": 2, "headers": {"a": 1, "b": [1, "x"], "c": {"d": True}}, "priority": 3,
                  "content_type": "text/plain", "content_encoding": "gzip", "message_id": "m", "timestamp": 1700000000,
                  "expiration": "100000", "app_id": "app", "type": "t", "correlation_id": "c", "reply_to": "r",
                  "user_id": "guest", "cluster_id": "cl"}
    api.publish(name, "hello", **properties)
    path = f"queues/%2F/{name}/get"
    got = api.ask("POST", path, {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})[1][0]
    assert (got["properties"], got["payload"], got["payload_encoding"]) == (properties, "hello", "string")
    cut = {"count": 1, "ackmode": "reject_requeue_true", "encoding": "base64", "truncate": 3}
    got = api.ask("POST", path, cut)[1][0]
    assert (got["payload"], got["payload_bytes"], got["redelivered"]) == ("aGVs", 5, True)
    assert len(api.ask("POST", path, {"count": 9, "ackmode": "reject_requeue_false", "encoding": "auto"})[1]) == 1
    assert api.ask("POST", path, {"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}) == (200, [])


def test_lists_are_filtered_sorted_and_cut_into_pages(api, name):
    for at in range(5):
        api.declare(f"{name}-{at}")
    shown = f"columns=name&name={name}"
    page = eventually("all five", lambda: (p := api.get(f"queues?page=2&page_size=2&{shown}"))["filtered_count"] == 5 and p)
    assert [one["name"] for one in page["items"]] == [f"{name}-2", f"{name}-3"]
    assert (page["item_count"], page["page_count"], page["page"]) == (2, 3, 2)
    back = api.get(f"queues?page=1&page_size=2&sort=name&sort_reverse=true&{shown}")
    assert back["items"] == [{"name": f"{name}-4"}, {"name": f"{name}-3"}]
    exact = api.get(f"queues?page=1&name=%5E{name}-1%24&use_regex=true&columns=name")
    assert exact["items"] == [{"name": f"{name}-1"}]
    assert api.ask("GET", f"queues?page=9&page_size=2&{shown}")[1]["error"] == "page_out_of_range"


def test_an_operator_sees_and_closes_a_connection(api, broker, name):
    api.declare(name)
    connection = connect(broker, client_properties={"connection_name": name})
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=7)
    channel.basic_publish("", name, b"x", PERSISTENT)
    channel.basic_consume(name, lambda *_: None, consumer_tag="tag-" + name)
    connection.process_data_events(0)
    def found():
        return next((one for one in api.get("connections") if one.get("user_provided_name") == name), None)
    seen = eventually("the connection", found)
    assert (seen["user"], seen["vhost"], seen["protocol"], seen["state"]) == ("guest", "/", "AMQP 0-9-1", "running")
    path = "connections/" + quoted(seen["name"])
    channels = eventually("the channel's figures",
                          lambda: [c for c in api.get(path + "/channels") if c.get("messages_unacknowledged") == 1])
    assert (channels[0]["prefetch_count"], channels[0]["confirm"], channels[0]["consumer_count"]) == (7, True, 1)
    consumer = eventually("the consumer", lambda: [c for c in api.get("consumers") if c["queue"]["name"] == name])
    assert (consumer[0]["consumer_tag"], consumer[0]["ack_required"]) == ("tag-" + name, True)
    assert api.ask("DELETE", path, headers={"X-Reason": "by a test"}) == (204, None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(30)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - by a test")
    eventually("it has gone", lambda: found() is None)
    assert api.ask("DELETE", path)[0] == 404


def test_tags_say_how_far_somebody_sees(api, name):
    def user(tag):
        assert api.ask("PUT", f"users/{name}-{tag}", {"password": "p", "tags": tag})[0] == 201
        return f"{name}-{tag}:p"
    nobody, manager, monitor = user(""), user("management"), user("monitoring")
    assert api.ask("GET", "overview", login=nobody) == \
        (401, {"error": "not_authorised", "reason": "Not management user"})
    assert api.ask("GET", "overview", login="guest:wrong")[0] == 401
    assert api.ask("GET", "nodes", login=manager) == (401, {"error": "not_authorised", "reason": "Not monitor user"})
    assert api.ask("GET", "nodes", login=monitor)[0] == 200
    assert api.ask("GET", "users", login=monitor) == \
        (401, {"error": "not_authorised", "reason": "Not administrator user"})
    assert api.ask("GET", "queues/%2F", login=manager) == \
        (401, {"error": "not_authorised", "reason": "User not authorised to access virtual host"})
    assert api.ask("GET", "queues", login=manager) == (200, [])
    granted = {"configure": "^a", "write": "^a", "read": "^a"}
    assert api.ask("PUT", f"permissions/%2F/{name}-management", granted)[0] == 201
    assert api.ask("PUT", f"queues/%2F/{name}", {}, login=manager) == \
        (401, {"error": "not_authorised", "reason": "Access refused."})
    assert api.ask("PUT", f"queues/%2F/a{name}", {}, login=manager) == (201, None)
    assert api.ask("DELETE", f"queues/%2F/a{name}", login=manager) == (204, None)
    for tag in ["", "management", "monitoring"]:
        assert api.ask("DELETE", f"users/{name}-{tag}") == (204, None)


def test_health_is_told(api, broker):
    for check in ["alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical",
                  "is-in-service", "ready-to-serve-clients", f"port-listener/{broker.ports['http']}",
                  f"port-listener/{broker.amqp_port}", "protocol-listener/amqp091"]:
        assert api.get(f"health/checks/{check}")["status"] == "ok", check
    assert api.ask("GET", "health/checks/protocol-listener/mqtt")[0] == 503
    status, body = api.ask("GET", "health/checks/port-listener/1")
    assert (status, body["reason"], body["missing"]) == (503, "No active listener", 1)
    assert api.get("aliveness-test/%2F") == {"status": "ok"}
    # A queue of that name that somebody made stays, with what is in it.
    api.declare("aliveness-test", durable=False)
    api.publish("aliveness-test", "mine")
    assert api.get("aliveness-test/%2F") == {"status": "ok"}
    assert api.ask("DELETE", "queues/%2F/aliveness-test") == (204, None)
    assert api.get("whoami")["name"] == "guest"
    assert "object_totals" in api.get("overview")


def test_what_was_declared_over_http_is_there_after_a_kill(own_broker):
    api = Api(own_broker)
    api.declare("kept", arguments={"x-max-length": 5})
    assert api.ask("PUT", "exchanges/%2F/kept", {"type": "topic", "durable": True})[0] == 201
    assert api.ask("POST", "bindings/%2F/e/kept/q/kept", {"routing_key": "a.#"})[0] == 201
    api.publish("kept", "hello", delivery_mode=2)
    own_broker.kill()
    own_broker.start()
    queue = api.get("queues/%2F/kept")
    assert (queue["messages"], queue["arguments"]) == (1, {"x-max-length": 5})
    assert api.get("bindings/%2F/e/kept/q/kept")[0]["routing_key"] == "a.#"
    assert api.get("exchanges/%2F/kept")["type"] == "topic"


def test_x05_five_thousand_queues_are_listed_and_others_go_on(own_broker):
    if own_broker.peer:
        pytest.skip("the peer is not ours to fill")
    api = Api(own_broker)
    connection = connect(own_broker)
    channel = connection.channel()
    for at in range(5000):
        channel.queue_declare(f"q{at}", durable=False)
    channel.queue_declare("busy", durable=True)
    stop, worst = threading.Event(), []

    def work():
        one = connect(own_broker)
        busy = one.channel()
        while not stop.is_set():
            begun = time.monotonic()
            busy.queue_declare("busy", passive=True)
            worst.append(time.monotonic() - begun)
        one.close()

    thread = threading.Thread(target=work)
    thread.start()
    eventually("somebody else at work", lambda: worst)
    begun = time.monotonic()
    queues = api.get("queues/%2F")
    took = time.monotonic() - begun
    stop.set()
    thread.join()
    connection.close()
    print(f"5,001 queues listed in {took:.2f} s; the longest round trip meanwhile {max(worst) * 1000:.1f} ms")
    assert len(queues) == 5001 and all("messages_ready" in queue for queue in queues)
