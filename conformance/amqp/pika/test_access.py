"""Virtual hosts, permissions and limits, word by word as RabbitMQ refuses; through restarts and kills."""

import pika
import pytest

from admin import Admin
from kit import PERSISTENT, connect, count, get, put

ALL = (".*", ".*", ".*")


@pytest.fixture
def admin(broker):
    return Admin(broker)


def enter(broker, user, vhost, password="secret"):
    return connect(broker, virtual_host=vhost, credentials=pika.PlainCredentials(user, password))


def no_entry(broker, user, vhost):
    """The text with which connection.open is refused."""
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refused:
        enter(broker, user, vhost)
    return str(refused.value)


@pytest.fixture
def home(broker, admin, name):
    """A user who is the only one of a virtual host, both of that name; nothing is granted yet but entrance."""
    admin.user(name, "secret")
    admin.vhost(name)
    admin.permit(name, "guest", *ALL)
    admin.permit(name, name, "", "", "")
    owner = connect(broker, virtual_host=name)
    channel = owner.channel()
    channel.queue_declare("q")
    channel.exchange_declare("e", "topic")
    channel.exchange_declare("f", "fanout")
    one = enter(broker, name, name)
    yield one
    for connection in (one, owner):
        if connection.is_open:
            connection.close()
    admin.delete_vhost(name)
    admin.delete_user(name)


def refused(connection, act):
    """Code and text with which the channel is closed for `act`."""
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        act(channel)
    return closed.value.reply_code, closed.value.reply_text


def confirmed(exchange, key, properties=None):
    def act(channel):
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"x", properties)
    return act


def test_who_does_not_get_in_is_told_why(broker, admin, name):
    admin.user(name, "secret")
    assert f"(530) 'NOT_ALLOWED - vhost {name} not found'" in no_entry(broker, name, name)
    admin.vhost(name)
    text = f"(530) \"NOT_ALLOWED - access to vhost '{name}' refused for user '{name}'\""
    assert text in no_entry(broker, name, name)
    admin.permit(name, name, "", "", "")
    enter(broker, name, name).close()
    admin.forbid(name, name)
    assert text in no_entry(broker, name, name)


NEEDS = [
    ("queue", "q", lambda ch: ch.queue_declare("q")),
    ("queue", "new", lambda ch: ch.queue_declare("new")),
    ("queue", "q", lambda ch: ch.queue_delete("q")),
    ("queue", "q", lambda ch: ch.queue_purge("q")),
    ("queue", "none", lambda ch: ch.queue_purge("none")),
    ("queue", "q", lambda ch: ch.queue_bind("q", "e", "k")),
    ("queue", "q", lambda ch: ch.queue_unbind("q", "e", "k")),
    ("queue", "q", lambda ch: ch.basic_get("q")),
    ("queue", "q", lambda ch: ch.basic_consume("q", print)),
    ("exchange", "e", lambda ch: ch.exchange_declare("e", "topic")),
    ("exchange", "e", lambda ch: ch.exchange_delete("e")),
    ("exchange", "f", lambda ch: ch.exchange_bind("f", "e", "k")),
    ("exchange", "f", lambda ch: ch.exchange_unbind("f", "e", "k")),
    ("exchange", "e", confirmed("e", "k")),
    ("exchange", "amq.default", confirmed("", "q")),
    ("exchange", "none", confirmed("none", "k")),
]


@pytest.mark.parametrize("kind, thing, act", NEEDS)
def test_what_is_not_granted_is_refused_by_name(home, name, kind, thing, act):
    text = f"ACCESS_REFUSED - access to {kind} '{thing}' in vhost '{name}' refused for user '{name}'"
    assert refused(home, act) == (403, text)


def test_each_end_of_a_binding_needs_its_own_permission(home, admin, name):
    bind = lambda channel: channel.queue_bind("q", "e", "k")  # noqa: E731
    admin.permit(name, name, "", "^q$", "")
    assert refused(home, bind)[1].startswith("ACCESS_REFUSED - access to exchange 'e' in vhost")
    admin.permit(name, name, "", "^q$", "^e$")
    home.channel().queue_bind("q", "e", "k")


def test_dead_letters_and_alternates_need_their_exchanges_permission(home, admin, name):
    dead = {"x-dead-letter-exchange": "f"}
    queue = lambda channel: channel.queue_declare("made", arguments=dead)  # noqa: E731
    other = {"alternate-exchange": "f"}
    exchange = lambda channel: channel.exchange_declare("x", "direct", arguments=other)  # noqa: E731
    admin.permit(name, name, ".*", "", "")
    assert "access to queue 'made'" in refused(home, queue)[1]
    assert "access to exchange 'x'" in refused(home, exchange)[1]
    admin.permit(name, name, ".*", "", ".*")
    assert "access to exchange 'f'" in refused(home, queue)[1]
    assert "access to exchange 'f'" in refused(home, exchange)[1]
    admin.permit(name, name, ".*", "^f$", ".*")
    channel = home.channel()
    queue(channel)
    exchange(channel)


def test_exact_patterns_let_exactly_their_names_through(home, admin, name):
    admin.permit(name, name, "^(q|amq\\.gen-.*)$", "^(amq\\.default|q)$", "^(q|e)$")
    channel = home.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    assert channel.queue_declare("").method.queue.startswith("amq.gen-")
    put(channel, "q", b"one")
    assert get(channel, "q", auto_ack=True)[2] == b"one"
    assert refused(home, confirmed("e", "k"))[0] == 403


def test_routing_keys_are_limited_on_topic_exchanges(home, admin, name):
    admin.permit(name, name, *ALL)
    admin.permit_keys(name, name, "e", "^{username}\\.{vhost}\\.", "^r\\.")
    channel = home.channel()
    channel.confirm_delivery()
    channel.basic_publish("e", f"{name}.{name}.x", b"x")
    channel.basic_publish("f", "anything", b"x")
    channel.queue_bind("q", "e", "r.x")

    def text(key):
        return f"ACCESS_REFUSED - access to topic '{key}' in exchange 'e' in vhost '{name}' refused for user '{name}'"
    if len(name) < 60:  # a reply text has at most 255 bytes
        assert refused(home, confirmed("e", "other")) == (403, text("other"))
        assert refused(home, lambda ch: ch.queue_bind("q", "e", "s.x")) == (403, text("s.x"))


def test_virtual_hosts_know_nothing_of_each_other(broker, home, admin, name):
    admin.permit(name, name, *ALL)
    here, root = home.channel(), connect(broker).channel()
    root.queue_declare(name)
    root.queue_bind(name, "amq.fanout")
    here.queue_declare(name)
    here.confirm_delivery()
    put(here, name, b"here")
    put(here, "", b"here", exchange="amq.fanout")
    assert (count(here, name), count(root, name)) == (1, 0)
    root.queue_delete(name)
    assert count(here, name) == 1


def test_only_an_impersonator_publishes_under_other_names(broker, home, admin, name):
    admin.permit(name, name, *ALL)
    as_other = pika.BasicProperties(user_id="other")
    text = f"PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was '{name}'"
    assert refused(home, confirmed("", "q", as_other)) == (406, text)
    admin.user(name, "secret", ["impersonator"])
    again = enter(broker, name, name)
    confirmed("", "q", as_other)(again.channel())
    again.close()


def test_limits_of_users_and_virtual_hosts_hold(broker, home, admin, name):
    admin.permit(name, name, *ALL)
    admin.limit_vhost(name, connections_max=2, queues_max=1)
    text = f"access to vhost '{name}' refused for user '{name}': connection limit (2) is reached"
    assert text in no_entry(broker, name, name)
    text = f"PRECONDITION_FAILED - cannot declare queue 'r': queue limit in vhost '{name}' (1) is reached"
    assert refused(home, lambda ch: ch.queue_declare("r")) == (406, text)
    home.channel().queue_declare("q")
    admin.limit_vhost(name)
    admin.limit_user(name, connections_max=1, channels_max=home_channels(home) + 1)
    text = f"connection refused for user '{name}': user connection limit (1) is reached"
    assert text in no_entry(broker, name, name)
    home.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        home.channel()
    assert closed.value.reply_code == 530
    assert "number of channels opened for user" in closed.value.reply_text


def home_channels(connection):
    """Channels that are open on a connection."""
    return sum(1 for channel in connection._impl._channels.values() if channel.is_open)


@pytest.mark.parametrize("what", ["user", "vhost"])
def test_who_loses_user_or_virtual_host_is_cut_off(broker, admin, name, what):
    admin.user(name, "secret")
    admin.vhost(name)
    admin.permit(name, name, *ALL)
    one = enter(broker, name, name)
    one.channel().queue_declare("q", durable=True)
    getattr(admin, f"delete_{what}")(name)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        for _ in range(30):
            one.process_data_events(time_limit=1)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, f"CONNECTION_FORCED - {what} '{name}' is deleted")
    admin.user(name, "secret")
    admin.vhost(name)
    admin.permit(name, name, *ALL)
    channel = enter(broker, name, name).channel()
    if what == "vhost":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("q", passive=True)
    else:
        assert count(channel, "q") == 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_virtual_hosts_and_permissions_survive(own_broker, name, end):
    admin = Admin(own_broker)
    admin.user(name, "secret")
    admin.vhost(name)
    admin.permit(name, name, "^mine-", ".*", "^mine-")
    admin.permit_keys(name, name, "amq.topic", "^k$", "^k$")
    admin.limit_vhost(name, queues_max=1)
    channel = enter(own_broker, name, name).channel()
    channel.confirm_delivery()
    channel.queue_declare("mine-q", durable=True)
    put(channel, "mine-q", b"kept", properties=PERSISTENT)
    getattr(own_broker, end)()
    own_broker.start()
    one = enter(own_broker, name, name)
    assert get(one.channel(), "mine-q", auto_ack=True)[2] == b"kept"
    assert refused(one, lambda ch: ch.queue_declare("other"))[0] == 403
    assert refused(one, confirmed("amq.topic", "other"))[0] == 403
    assert refused(one, lambda ch: ch.queue_declare("mine-r"))[0] == 406
    confirmed("amq.topic", "k")(one.channel())
