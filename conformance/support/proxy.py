"""A proxy before the Kafka door that loses answers: the request arrives, its answer does not, the connection breaks.

Answers that name the broker's port (metadata, coordinators) are changed to name the proxy's, so that clients stay on it.
"""

import socket
import struct
import threading

PRODUCE = 0


class LossyProxy:
    def __init__(self, target_port):
        self.target_port = target_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.lock = threading.Lock()
        self.to_lose = 0
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_produce_answers(self, count):
        """The next `count` answers to Produce are lost, each with its connection."""
        with self.lock:
            self.to_lose = count

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(("127.0.0.1", self.target_port))
        produce = set()
        threading.Thread(target=self._requests, args=(client, server, produce), daemon=True).start()
        own = b"127.0.0.1" + struct.pack(">i", self.target_port)
        mine = b"127.0.0.1" + struct.pack(">i", self.port)
        try:
            while frame := _frame(server):
                if struct.unpack(">i", frame[4:8])[0] in produce:
                    with self.lock:
                        if self.to_lose > 0:
                            self.to_lose -= 1
                            self.lost += 1
                            return
                client.sendall(frame.replace(own, mine))
        except OSError:
            pass
        finally:
            for end in (client, server):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()

    @staticmethod
    def _requests(client, server, produce):
        try:
            while frame := _frame(client):
                key, _, correlation = struct.unpack(">hhi", frame[4:12])
                if key == PRODUCE:
                    produce.add(correlation)
                server.sendall(frame)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _frame(end):
    """The next frame with its length, or nothing at the end."""
    head = _exactly(end, 4)
    if head is None:
        return None
    body = _exactly(end, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _exactly(end, count):
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(min(count - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)
