"""Makes users, virtual hosts and permissions: over our own HTTP interface, or over the management API of RabbitMQ."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request


def quoted(name):
    return urllib.parse.quote(name, safe="")


class Admin:
    """An administrator of the broker. The peer's management port is its AMQP port and 10,000."""

    def __init__(self, broker):
        self.is_peer = "amqp" in broker.peer
        port = broker.amqp_port + 10000 if self.is_peer else broker.ports["http"]
        self.root = f"http://127.0.0.1:{port}/api/" + ("" if self.is_peer else "v1/")

    def ask(self, method, path, body=None, login="guest:guest"):
        """Status and body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data=data, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def done(self, *asked, **options):
        status, body = self.ask(*asked, **options)
        assert status < 300, (asked, status, body)
        return body

    def user(self, name, password, tags=()):
        tags = ",".join(tags) if self.is_peer else list(tags)
        self.done("PUT", f"users/{quoted(name)}", {"password": password, "tags": tags})

    def delete_user(self, name):
        self.done("DELETE", f"users/{quoted(name)}")

    def vhost(self, name):
        self.done("PUT", f"vhosts/{quoted(name)}" if self.is_peer else f"tenants/{quoted(name)}", {})

    def delete_vhost(self, name):
        self.done("DELETE", f"vhosts/{quoted(name)}" if self.is_peer else f"tenants/{quoted(name)}")

    def _granted(self, what, vhost, user):
        return f"{what}/{quoted(vhost)}/{quoted(user)}" if self.is_peer else \
            f"tenants/{quoted(vhost)}/{what}/{quoted(user)}"

    def permit(self, vhost, user, configure, write, read):
        body = {"configure": configure, "write": write, "read": read}
        self.done("PUT", self._granted("permissions", vhost, user), body)

    def forbid(self, vhost, user):
        self.done("DELETE", self._granted("permissions", vhost, user))

    def permit_keys(self, vhost, user, exchange, write, read):
        body = {"exchange": exchange, "write": write, "read": read}
        self.done("PUT", self._granted("topic-permissions", vhost, user), body)

    def limit_vhost(self, name, **limits):
        if self.is_peer:
            for what in ("connections_max", "queues_max"):
                value = limits.get(what)
                body = {"value": -1 if value is None else value}
                self.done("PUT", f"vhost-limits/{quoted(name)}/max-{what.split('_')[0]}", body)
        else:
            self.done("PUT", f"tenants/{quoted(name)}", limits)

    def limit_user(self, name, **limits):
        if self.is_peer:
            for what in ("connections_max", "channels_max"):
                value = limits.get(what)
                body = {"value": -1 if value is None else value}
                self.done("PUT", f"user-limits/{quoted(name)}/max-{what.split('_')[0]}", body)
        else:
            self.done("PUT", f"users/{quoted(name)}/limits", limits)
