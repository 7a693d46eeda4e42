"""What the tests of the management API share: plain HTTP, RabbitMQ's own rabbitmqadmin, and a connection by pika."""

import base64
import glob
import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pika


def quoted(name):
    return urllib.parse.quote(name, safe="")


def management_port(broker):
    """The peer's management port is its AMQP port and 10,000."""
    return broker.amqp_port + 10000 if "amqp" in broker.peer else broker.ports["http"]


def prometheus_url(broker, path="/metrics"):
    port = broker.amqp_port + 10020 if "amqp" in broker.peer else broker.ports["http"]
    return f"http://127.0.0.1:{port}{path}"


class Api:
    """The API by plain HTTP."""

    def __init__(self, broker):
        self.root = f"http://127.0.0.1:{management_port(broker)}/api/"

    def ask(self, method, path, body=None, login="guest:guest", headers=()):
        """Status and body; the body as JSON where it is."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data=data, method=method, headers=dict(headers))
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read()
        try:
            return status, json.loads(text) if text else None
        except ValueError:
            return status, text

    def get(self, path, **options):
        status, body = self.ask("GET", path, **options)
        assert status == 200, (path, status, body)
        return body

    def declare(self, queue, **body):
        status, said = self.ask("PUT", f"queues/%2F/{quoted(queue)}", {"durable": True, **body})
        assert status in (201, 204), (status, said)

    def publish(self, queue, payload, **properties):
        body = {"properties": properties, "routing_key": queue, "payload": payload, "payload_encoding": "string"}
        assert self.ask("POST", "exchanges/%2F/amq.default/publish", body) == (200, {"routed": True})


def connect(broker, **options):
    parameters = pika.ConnectionParameters(host="127.0.0.1", port=broker.amqp_port, heartbeat=0, **options)
    return pika.BlockingConnection(parameters)


def rabbitmqadmin_script(tmp):
    """RabbitMQ's own script: of the package if it is installed, else out of the package, which is only downloaded."""
    inside = "usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"
    found = glob.glob("/" + inside)
    if not found:
        cache = pathlib.Path(sys.prefix) / "rabbitmq-package"
        if not glob.glob(str(cache / inside)):
            subprocess.run(["apt-get", "download", "rabbitmq-server"], cwd=tmp, check=True, capture_output=True)
            package = next(pathlib.Path(tmp).glob("rabbitmq-server_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(package), str(cache)], check=True)
        found = glob.glob(str(cache / inside))
    return found[0]
