"""TLS at every door by official clients: what they trust, what they show, who they are then, and new certificates."""

import json
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

import confluent_kafka
import confluent_kafka.admin
import kafka
import pika
import pytest

from fourfold import eventually
from kit import Authority, connect, mutual, works

FAILURES = (ssl.SSLError, ConnectionError, pika.exceptions.AMQPError)


def refused(broker, context, credentials=None):
    """A client that cannot come in; pika wraps the reason."""
    with pytest.raises(FAILURES):
        connect(broker, context, credentials)
    return True


def ssl_options(broker, authority, **more):
    return {"bootstrap.servers": f"localhost:{broker.ports['kafka-ssl']}", "security.protocol": "ssl",
            "ssl.ca.location": str(authority.ca), **more}


def shown(broker, context):
    """The serial number of the certificate that the amqps door shows."""
    with socket.create_connection(("localhost", broker.ports["amqps"]), timeout=20) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            return secured.getpeercert()["serialNumber"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pika_through_tls(secure, authority, version, name):
    connection = connect(secure, authority.trust(version=version))
    assert works(connection, name)
    body = os.urandom(5_000_000)
    channel = connection.channel()
    channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))
    _, _, got = channel.basic_get(name, auto_ack=True)
    assert got == body
    connection.close()


def test_an_rsa_key_serves_too(serve, authority, name):
    authority.issue("server", "server", rsa_key=True)
    assert works(connect(serve(), authority.trust()), name)


def test_a_client_refuses_a_server_it_does_not_trust(serve, authority):
    broker = serve()
    stranger = Authority()
    try:
        assert refused(broker, stranger.trust())
    finally:
        stranger.close()
    context = authority.trust()
    with socket.create_connection(("localhost", broker.ports["amqps"]), timeout=20) as plain:
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="elsewhere.example")
    eventually("the log helps", lambda: "does not trust the certificate of tls.cert" in broker.log())


def test_an_expired_certificate_is_said_at_the_start_and_refused_by_clients(serve, authority):
    authority.issue("server", "server", days=-1)
    broker = serve()
    assert refused(broker, authority.trust())
    eventually("the log says it", lambda: "has ended" in broker.log())


def test_clients_must_show_a_certificate_of_ours(serve, authority, name):
    broker = serve(*mutual(authority))
    authority.issue("alice", "alice")
    authority.issue("late", "late", days=-1)
    assert works(connect(broker, authority.trust("alice")), name)
    assert refused(broker, authority.trust())
    assert refused(broker, authority.trust("late"))
    stranger = Authority()
    stranger.issue("alice", "alice")
    context = authority.trust()
    context.load_cert_chain(stranger.home / "alice.pem", stranger.home / "alice.key")
    stranger.close()
    assert refused(broker, context)
    for said in ["showed no certificate", "comes from none of tls.client_ca", "is refused"]:
        eventually(said, lambda: said in broker.log())


def test_a_new_certificate_is_taken_without_a_restart(secure, authority, name):
    context = authority.trust()
    old, before = connect(secure, context), shown(secure, context)
    authority.issue("server", "renewed")
    eventually("the new one is shown", lambda: shown(secure, context) != before)
    assert works(old, name), "who is there stays"
    renewed = shown(secure, context)
    (authority.home / "server.pem").write_text("nothing")
    eventually("the log says it", lambda: "those of before stay in use" in secure.log())
    assert shown(secure, context) == renewed
    assert works(old, name)


def test_sighup_reads_the_files_at_once(serve, authority):
    broker = serve("--tls-reload-check", "1d")
    context = authority.trust()
    before = shown(broker, context)
    authority.issue("server", "renewed")
    assert shown(broker, context) == before
    broker.process.send_signal(signal.SIGHUP)
    eventually("the new one is shown", lambda: shown(broker, context) != before)


def test_kafka_through_tls_gives_back_what_it_got(secure, authority, name):
    bodies = [os.urandom(900_000) for _ in range(40)]
    producer = confluent_kafka.Producer(ssl_options(secure, authority, **{"acks": "all"}))
    for body in bodies:
        producer.produce(name, body)
    assert producer.flush(60) == 0
    secure.stop()
    secure.start()
    options = {"group.id": name, "auto.offset.reset": "earliest", "fetch.max.bytes": 20_000_000,
               "max.partition.fetch.bytes": 10_000_000}
    consumer = confluent_kafka.Consumer(ssl_options(secure, authority, **options))
    consumer.subscribe([name])
    got, end = [], time.monotonic() + 60
    while len(got) < len(bodies) and time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            got.append(message.value())
    consumer.close()
    assert got == bodies


def test_kafka_python_with_a_certificate(serve, authority, name):
    broker = serve(*mutual(authority))
    cert, key = authority.issue("alice", "alice")
    options = {"bootstrap_servers": f"localhost:{broker.ports['kafka-ssl']}", "security_protocol": "SSL",
               "ssl_cafile": str(authority.ca), "ssl_check_hostname": False}
    producer = kafka.KafkaProducer(ssl_certfile=str(cert), ssl_keyfile=str(key), **options)
    assert producer.send(name, b"hello").get(30).offset == 0
    producer.close()
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaProducer(bootstrap_timeout_ms=3000, **options)


def test_kafka_clients_are_told_the_address_of_the_door_they_came_by(serve, authority):
    broker = serve()
    secured = confluent_kafka.admin.AdminClient(ssl_options(broker, authority)).list_topics(timeout=20)
    assert [one.port for one in secured.brokers.values()] == [broker.ports["kafka-ssl"]]
    plain = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.kafka}).list_topics(timeout=20)
    assert [one.port for one in plain.brokers.values()] == [broker.ports["kafka"]]
    broker = serve("--kafka-advertised-ssl", "broker.example:9093", "--kafka-advertised", "broker.example:9092")
    for options, port in [(ssl_options(broker, authority), 9093), ({"bootstrap.servers": broker.kafka}, 9092)]:
        told = confluent_kafka.admin.AdminClient(options).list_topics(timeout=20)
        assert [(one.host, one.port) for one in told.brokers.values()] == [("broker.example", port)]


def test_https_answers_as_http_does(secure, authority):
    with urllib.request.urlopen(f"https://localhost:{secure.ports['https']}/api/v1/health",
                                context=authority.trust(), timeout=20) as answer:
        assert answer.status == 200
        json.load(answer)


def test_the_command_line_speaks_tls(secure, authority):
    server = f"https://localhost:{secure.ports['https']}"

    def run(*words):
        command = [os.environ["FOURFOLD_BIN"], *words, "--server", server]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    assert run("topic", "create", "t", "--ca", str(authority.ca)).returncode == 0
    assert "t" in run("topic", "list", "--ca", str(authority.ca)).stdout
    without = run("topic", "list")
    assert without.returncode == 2 and "--ca FILE" in without.stderr
    stranger = Authority()
    foreign = run("topic", "list", "--ca", str(stranger.ca))
    stranger.close()
    assert foreign.returncode == 3 and "certificate" in foreign.stderr, foreign.stderr


def test_a_wrong_start_is_met_with_a_word_and_an_end(secure, authority, name):
    with socket.create_connection(("localhost", secure.ports["amqps"]), timeout=20) as plain:
        plain.sendall(b"AMQP\0\0\x09\x01")
        assert plain.recv(100) == b""
    eventually("the log helps", lambda: "the client does not (it begins with" in secure.log())
    with socket.create_connection(("localhost", secure.ports["amqp"]), timeout=20) as plain:
        with pytest.raises(ssl.SSLError):
            authority.trust().wrap_socket(plain, server_hostname="localhost")
    eventually("the log helps", lambda: "began with TLS at a door without" in secure.log())
    assert works(connect(secure, authority.trust()), name)


def test_handshakes_that_do_not_end_hold_up_nobody(secure, authority, name):
    idle = [socket.create_connection(("localhost", secure.ports["amqps"]), timeout=30) for _ in range(200)]
    for one in idle[::2]:
        one.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert works(connect(secure, authority.trust()), name)
    for one in idle:
        assert one.recv(1) == b"", "closed after ten seconds"
        one.close()


def test_a_client_that_never_reads_hurts_nobody(secure, authority, name):
    connection = connect(secure, authority.trust())
    assert works(connection, name)
    channel = connection.channel()
    for _ in range(60):
        channel.basic_publish("", name, os.urandom(500_000))
    deaf = connect(secure, authority.trust())
    deaf.channel().basic_consume(name, lambda *_: None, auto_ack=True)
    assert works(connection, f"{name}-other")
    deaf.close()


@pytest.mark.parametrize("change, said", [
    (lambda home: ["--tls-cert", home / "server.pem"], "--tls-key"),
    (lambda home: ["--tls-cert", home / "server.pem", "--tls-key", home / "other.key"], "not the key of the certificate"),
    (lambda home: ["--tls-cert", home / "none.pem", "--tls-key", home / "server.key"], "cannot read tls.cert"),
    (lambda home: [], "--tls-cert"),
])
def test_what_cannot_serve_does_not_start(authority, tmp_path, change, said):
    authority.issue("other", "other")
    command = [os.environ["FOURFOLD_BIN"], "serve", "--data", tmp_path, "--kafka", "off", "--amqp", "off", "--http", "off",
               "--amqps", "127.0.0.1:0", *change(authority.home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and said in done.stderr, done.stderr
