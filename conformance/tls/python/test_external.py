"""Logging in by certificate (EXTERNAL), with pika: who is offered it, whom a certificate names, what stays after a kill."""

import pika
import pytest
from pika.credentials import ExternalCredentials

from fourfold import eventually
from kit import cli, connect, mutual, permit, works


def test_external_logs_in_whom_the_certificate_names(serve, authority, name):
    broker = serve(*mutual(authority, "optional"))
    authority.issue("alice", "alice")
    cli(broker, "user", "add", "CN=alice,O=Example", "--password-stdin", stdin="unused\n")
    permit(broker, "CN=alice,O=Example")
    assert works(connect(broker, authority.trust("alice"), ExternalCredentials()), name)
    assert works(connect(broker, authority.trust("alice")), name), "PLAIN is still there"
    authority.issue("bob", "bob")
    with pytest.raises((pika.exceptions.AuthenticationError, pika.exceptions.ProbableAuthenticationError)):
        connect(broker, authority.trust("bob"), ExternalCredentials())
    eventually("the log helps", lambda: "names 'CN=bob,O=Example', and there is no such user" in broker.log())
    # Without a certificate it is not offered.
    with pytest.raises(pika.exceptions.AMQPError):
        connect(broker, authority.trust(), ExternalCredentials())
    broker.kill()
    broker.start()
    assert works(connect(broker, authority.trust("alice"), ExternalCredentials()), name)


@pytest.mark.parametrize("place, user", [("common_name", "alice"), ("subject_alternative_name", "alice.example")])
def test_external_finds_the_name_where_it_is_told(serve, authority, name, place, user):
    broker = serve(*mutual(authority), "--amqp-ssl-cert-login-from", place, "--amqp-ssl-cert-login-san-index", "1")
    authority.issue("alice", "alice")
    cli(broker, "user", "add", user, "--password-stdin", stdin="unused\n")
    permit(broker, user)
    assert works(connect(broker, authority.trust("alice"), ExternalCredentials()), name)
