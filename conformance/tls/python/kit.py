"""Certificates made for one test, brokers that show them, and clients that check them."""

import datetime
import ipaddress
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import urllib.parse
import urllib.request

import pika
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fourfold import Broker

DOORS = ("amqps", "kafka-ssl", "https")


class Authority:
    """Issues certificates into files of a folder of its own."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="fourfold-ca-"))
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {self.home.name}")])
        builder = self._builder(self.name, self.key.public_key(), -30, 365)
        self.cert = builder.add_extension(x509.BasicConstraints(True, None), True).sign(self.key, hashes.SHA256())
        self.ca = self.home / "ca.pem"
        self.ca.write_bytes(self.cert.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject, public_key, first_day, last_day):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public_key)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now + datetime.timedelta(days=first_day))
                .not_valid_after(now + datetime.timedelta(days=last_day)))

    def issue(self, file, common_name, days=365, rsa_key=False):
        """Writes FILE.pem and FILE.key; answers their paths."""
        key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
                             x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        # Kafka clients check the address that they are told: here 127.0.0.1.
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(f"{common_name}.example"),
                                             x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        cert = (self._builder(subject, key.public_key(), -60, days).add_extension(names, False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
                .sign(self.key, hashes.SHA256()))
        paths = self.home / f"{file}.pem", self.home / f"{file}.key"
        # The key first: who looks in between sees two files that do not belong together, and waits.
        paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                               serialization.NoEncryption()))
        paths[0].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        return paths

    def trust(self, shows=None, version=None):
        """What a client needs that trusts this authority and shows the certificate of that name, if any."""
        context = ssl.create_default_context(cafile=self.ca)
        if shows:
            context.load_cert_chain(self.home / f"{shows}.pem", self.home / f"{shows}.key")
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture
def authority():
    one = Authority()
    one.issue("server", "server")
    yield one
    one.close()


@pytest.fixture
def serve(authority):
    """Starts brokers with TLS doors; more options may be given."""
    running = []

    def start(*options):
        files = ["--tls-cert", authority.home / "server.pem", "--tls-key", authority.home / "server.key"]
        one = Broker(*files, "--tls-reload-check", "100ms", *options, doors=DOORS)
        running.append(one)
        return one.start()

    yield start
    for one in running:
        one.close()


@pytest.fixture
def secure(serve):
    """A broker with TLS doors that asks clients for nothing."""
    return serve()


def mutual(authority, kind="required"):
    return ["--tls-client-auth", kind, "--tls-client-ca", authority.ca]


def cli(broker, *words, stdin=None):
    """Runs the command line against the broker."""
    command = [os.environ["FOURFOLD_BIN"], *words, "--server", f"http://127.0.0.1:{broker.ports['http']}"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def permit(broker, user):
    """Lets the user do everything in the virtual host `/`, by the management API."""
    url = f"http://127.0.0.1:{broker.ports['http']}/api/permissions/%2F/{urllib.parse.quote(user, safe='')}"
    body = json.dumps({"configure": ".*", "write": ".*", "read": ".*"}).encode()
    headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT"), timeout=20) as answer:
        assert answer.status in (201, 204)


def connect(broker, context, credentials=None):
    """pika through TLS."""
    options = pika.SSLOptions(context, "localhost")
    parameters = pika.ConnectionParameters(
        "localhost", broker.ports["amqps"], ssl_options=options, heartbeat=0, socket_timeout=20,
        stack_timeout=20, credentials=credentials or pika.PlainCredentials("guest", "guest"))
    return pika.BlockingConnection(parameters)


def works(connection, queue):
    """A message goes through."""
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"hello")
    _, _, body = channel.basic_get(queue, auto_ack=True)
    return body == b"hello"
