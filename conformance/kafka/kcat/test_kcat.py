"""What kcat is promised: Kafka from the command line."""

import json
import subprocess

import pytest

from fourfold import eventually


def kcat(broker, *args, stdin=None):
    """What kcat prints; it must end well."""
    done = subprocess.run(["kcat", "-b", broker.kafka, "-m", "30", *args], input=stdin, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(broker, topic, *args):
    return kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", *args).splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_in_each_codec(broker, name, codec):
    lines = [f"line {n}" for n in range(500)]
    kcat(broker, "-P", "-t", name, "-z", codec, stdin="\n".join(lines) + "\n")
    assert read(broker, name) == lines


def test_keys_headers_and_times_come_back(broker, name):
    kcat(broker, "-P", "-t", name, "-K", ":", "-H", "a=1", "-H", "b=two", stdin="key:value\n")
    one = json.loads(read(broker, name, "-J")[0])
    assert (one["key"], one["payload"], one["offset"]) == ("key", "value", 0)
    assert one["headers"] == ["a", "1", "b", "two"]
    assert one["tstype"] == "create" and one["ts"] > 0


def test_topics_and_brokers_are_listed(broker, name):
    kcat(broker, "-P", "-t", name, stdin="x\n")
    listed = json.loads(kcat(broker, "-L", "-J"))
    assert [one["name"] for one in listed["brokers"]] == [broker.kafka]
    assert name in [one["topic"] for one in listed["topics"]]


def test_offsets_are_found_by_time(broker, name):
    kcat(broker, "-P", "-t", name, stdin="a\nb\n")
    assert kcat(broker, "-Q", "-t", f"{name}:0:1").strip() == f"{name} [0] offset 0"
    assert kcat(broker, "-Q", "-t", f"{name}:0:-1").strip() == f"{name} [0] offset 2"


def test_a_group_goes_on_where_it_was(broker, name):
    kcat(broker, "-P", "-t", name, stdin="1\n2\n3\n")

    def group(count):
        return kcat(broker, "-G", name, "-q", "-c", str(count), "-X", "auto.offset.reset=earliest", name).splitlines()
    assert group(2) == ["1", "2"]
    assert group(1) == ["3"]


def test_a_topic_that_is_not_there_is_named(broker, name):
    done = subprocess.run(["kcat", "-b", broker.kafka, "-C", "-t", name + "/bad", "-e", "-q"], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode != 0 and name in done.stderr


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_lines_survive(own_broker, name, end):
    lines = [f"{n}" for n in range(1000)]
    kcat(own_broker, "-P", "-t", name, "-X", "acks=all", stdin="\n".join(lines) + "\n")
    getattr(own_broker, end)()
    own_broker.start()
    kcat(own_broker, "-P", "-t", name, stdin="after\n")
    eventually("the last line is there", lambda: len(read(own_broker, name)) > 1000)
    assert read(own_broker, name) == lines + ["after"]
