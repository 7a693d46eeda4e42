"""RabbitMQ's own command-line tool, unchanged."""

import json
import subprocess
import sys

import pytest

from tools import management_port, rabbitmqadmin_script


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    return rabbitmqadmin_script(tmp_path_factory.mktemp("package"))


@pytest.fixture
def admin(script, broker):
    def run(*words, user="guest", password="guest"):
        command = [sys.executable, script, "-P", str(management_port(broker)), "-u", user, "-p", password, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def ok(*words, **options):
        done = run(*words, **options)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    ok.fails = run
    ok.table = lambda *words: json.loads(ok("-f", "raw_json", *words))
    return ok


def test_a_queue_is_declared_filled_looked_at_and_deleted(admin, name):
    assert "queue declared" in admin("declare", "queue", f"name={name}", "durable=true")
    assert "Message published" in admin("publish", f"routing_key={name}", "payload=hello")
    got = admin.table("get", f"queue={name}", "ackmode=ack_requeue_true")
    assert (got[0]["payload"], got[0]["redelivered"], got[0]["message_count"]) == ("hello", False, 0)
    got = admin.table("get", f"queue={name}", "ackmode=ack_requeue_false")
    assert got[0]["redelivered"] is True
    assert admin.table("get", f"queue={name}", "ackmode=ack_requeue_false") == []
    assert name in [queue["name"] for queue in admin.table("list", "queues", "name")]
    assert "queue purged" in admin("purge", "queue", f"name={name}")
    assert "queue deleted" in admin("delete", "queue", f"name={name}")
    again = admin.fails("delete", "queue", f"name={name}")
    assert again.returncode == 1 and "Not found" in again.stdout + again.stderr


def test_exchanges_and_bindings_come_and_go(admin, name):
    admin("declare", "exchange", f"name={name}", "type=topic")
    admin("declare", "queue", f"name={name}", "durable=true")
    admin("declare", "binding", f"source={name}", f"destination={name}", "routing_key=a.#")
    bound = [one for one in admin.table("list", "bindings") if one["source"] == name]
    assert [(one["routing_key"], one["properties_key"]) for one in bound] == [("a.#", "a.%23")]
    admin("delete", "binding", f"source={name}", f"destination={name}", "destination_type=queue",
          "properties_key=a.%23")
    assert not [one for one in admin.table("list", "bindings") if one["source"] == name]
    wrong = admin.fails("declare", "exchange", f"name={name}", "type=fanout")
    assert wrong.returncode == 1 and "inequivalent arg 'type'" in wrong.stdout + wrong.stderr
    admin("delete", "exchange", f"name={name}")
    admin("delete", "queue", f"name={name}")


def test_users_vhosts_and_permissions_come_and_go(admin, name):
    admin("declare", "vhost", f"name={name}")
    admin("declare", "user", f"name={name}", "password=secret", "tags=monitoring")
    admin("declare", "permission", f"vhost={name}", f"user={name}", "configure=.*", "write=^a", "read=.*")
    granted = [one for one in admin.table("list", "permissions") if one["user"] == name]
    assert [(one["vhost"], one["write"]) for one in granted] == [(name, "^a")]
    assert admin("list", "nodes", user=name, password="secret")
    refused = admin.fails("list", "users", user=name, password="secret")
    assert refused.returncode == 1
    wrong = admin.fails("list", "queues", user=name, password="wrong")
    assert wrong.returncode == 1
    admin("delete", "user", f"name={name}")
    admin("delete", "vhost", f"name={name}")


def test_everything_that_can_be_listed_is(admin):
    for what in ["connections", "channels", "consumers", "exchanges", "queues", "bindings", "users", "vhosts",
                 "permissions", "nodes"]:
        assert isinstance(admin.table("list", what), list), what
    assert "cluster_name" in admin("show", "overview")
