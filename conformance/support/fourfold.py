"""A broker of the test's own: started on free ports in a folder of its own, stopped, killed, and started again as it was.

Used by every Python suite. With PEER_KAFKA=host:port or PEER_AMQP=host:port the tests run against that broker instead (to
judge the tests themselves on the real systems); tests that kill the broker are then skipped, those that only restart it
need PEER_AMQP_RESTART, a command that does it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

READY_SECONDS = 30


def eventually(what, probe, seconds=30):
    """Waits until `probe()` is truthy and answers it; fails with `what` and the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}; last answer: {answer!r}")
        time.sleep(0.05)


class Broker:
    """One fourfold process and its data folder; `options` are those of `serve`, `doors` are opened beside the usual."""

    def __init__(self, *options, doors=()):
        self.options = options
        self.peer = {door: os.environ[name] for door, name in
                     [("kafka", "PEER_KAFKA"), ("amqp", "PEER_AMQP")] if name in os.environ}
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="fourfold-"))
        self.ports = {"kafka": 0, "amqp": 0, "http": 0} | {door: 0 for door in doors}
        self.process = None

    @property
    def kafka(self):
        """host:port for Kafka clients."""
        return self.peer.get("kafka") or f"127.0.0.1:{self.ports['kafka']}"

    @property
    def kafka_port(self):
        return int(self.kafka.rsplit(":", 1)[1])

    @property
    def amqp_port(self):
        return int(self.peer["amqp"].rsplit(":", 1)[1]) if "amqp" in self.peer else self.ports["amqp"]

    def start(self):
        """Starts it and waits until it is ready. The first start chooses the ports, later ones keep them."""
        if self.peer:
            return self
        ready = self.home / "ready.json"
        ready.unlink(missing_ok=True)
        command = [os.environ["FOURFOLD_BIN"], "serve", "--data", self.home / "data", "--ready-file", ready]
        for door, port in self.ports.items():
            command += [f"--{door}", f"127.0.0.1:{port}"]
        command += self.options
        with open(self.home / "log.txt", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + READY_SECONDS
        while not ready.exists():
            code = self.process.poll()
            assert code is None, f"fourfold ended with {code} before it was ready:\n{self.log()}"
            assert time.monotonic() < end, f"fourfold not ready within {READY_SECONDS} s:\n{self.log()}"
            time.sleep(0.02)
        for door, address in json.loads(ready.read_text())["doors"].items():
            self.ports[door] = int(address.rsplit(":", 1)[1])
        return self

    def kill(self):
        """SIGKILL: what the operating system has, stays; what only the process had, is gone."""
        if self.peer:
            pytest.skip("the peer is not ours to kill")
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM, and waits for a clean end."""
        if self.peer:
            pytest.skip("the peer is not ours to stop")
        self.process.terminate()
        code = self.process.wait(timeout=30)
        assert code == 0, f"fourfold ended with {code}:\n{self.log()}"

    def restart(self, hard):
        """Ends it, by SIGKILL if `hard`, and starts it again. A peer is restarted by the command PEER_AMQP_RESTART."""
        if self.peer:
            command = os.environ.get("PEER_AMQP_RESTART") or pytest.skip("no command restarts the peer")
            subprocess.run(command, shell=True, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            return
        self.kill() if hard else self.stop()
        self.start()

    def log(self):
        """The last lines it has said."""
        path = self.home / "log.txt"
        return "\n".join(path.read_text(errors="replace").splitlines()[-40:]) if path.exists() else ""

    def close(self):
        """Ends it whatever state it is in; a broker that has died by itself is a failure."""
        died = self.process is not None and self.process.poll() not in (None, 0, -9)
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        log = self.log()
        shutil.rmtree(self.home, ignore_errors=True)
        assert not died, f"fourfold died:\n{log}"


@pytest.fixture(scope="session")
def broker():
    """One broker for all tests that do not harm it."""
    one = Broker()
    try:
        yield one.start()
    finally:
        one.close()


@pytest.fixture
def own_broker():
    """A broker for this test alone: to be killed."""
    one = Broker()
    try:
        yield one.start()
    finally:
        one.close()


@pytest.fixture
def name(request):
    """A name for topics, groups and queues that no other test uses."""
    safe = "".join(c if c.isalnum() or c == "-" else "-" for c in request.node.name)
    return f"{safe}-{os.getpid()}-{time.monotonic_ns() % 1_000_000_007}"
