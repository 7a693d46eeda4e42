"""Kafka requests by hand, in their old inflexible forms: for what official clients never send."""

import socket
import struct


class Connection:
    def __init__(self, port, seconds=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.correlation = 0

    def close(self):
        self.socket.close()

    def send(self, key, version, body):
        """Sends one request with a header of version 1."""
        self.correlation += 1
        head = struct.pack(">hhi", key, version, self.correlation) + text("judge")
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def receive(self):
        """The next answer without its header, or None when the connection was closed."""
        size = self._exactly(4)
        if size is None:
            return None
        frame = self._exactly(struct.unpack(">i", size)[0])
        if frame is None:
            return None
        assert struct.unpack(">i", frame[:4])[0] == self.correlation
        return Answer(frame[4:])

    def ask(self, key, version, body):
        self.send(key, version, body)
        return self.receive()

    def _exactly(self, count):
        parts = b""
        while len(parts) < count:
            try:
                part = self.socket.recv(count - len(parts))
            except ConnectionResetError:
                return None
            if not part:
                return None
            parts += part
        return parts


class Answer:
    """Reads the fields of an answer in order."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def _take(self, form):
        size = struct.calcsize(form)
        value = struct.unpack(form, self.data[self.at:self.at + size])[0]
        self.at += size
        return value

    def int16(self):
        return self._take(">h")

    def int32(self):
        return self._take(">i")

    def int64(self):
        return self._take(">q")

    def text(self):
        size = self.int16()
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def data32(self):
        size = self.int32()
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size:self.at]

    def list(self, read):
        return [read() for _ in range(max(self.int32(), 0))]


def text(value):
    if value is None:
        return struct.pack(">h", -1)
    value = value.encode()
    return struct.pack(">h", len(value)) + value


def data(value):
    return struct.pack(">i", len(value)) + value


def listed(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def batch(values, producer=-1, epoch=-1, sequence=-1, time_ms=1_700_000_000_000):
    """A record batch (format 2, uncompressed) of `values` without keys."""
    records = b""
    for at, value in enumerate(values):
        body = b"\0" + varint(0) + varint(at) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, len(values) - 1, time_ms, time_ms, producer, epoch, sequence, len(values)) + records
    return struct.pack(">qiiBI", 0, len(tail) + 9, 0, 2, crc32c(tail)) + tail


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def crc32c(value):
    crc = 0xFFFFFFFF
    for byte in value:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def trim(raw, topic, offset, partition=0):
    """DeleteRecords up to `offset`; answers the low watermark and the code."""
    body = listed([text(topic) + listed([struct.pack(">iq", partition, offset)])]) + struct.pack(">i", 20_000)
    answer = raw.ask(21, 0, body)
    answer.int32()
    ((_, ((_, low, code),)),) = answer.list(
        lambda: (answer.text(), answer.list(lambda: (answer.int32(), answer.int64(), answer.int16()))))
    return low, code


def produce(raw, topic, records):
    """Produces batches to partition 0; answers the code and the base offset."""
    body = text(None) + struct.pack(">hi", -1, 20_000) + listed([text(topic) + listed([struct.pack(">i", 0) + data(records)])])
    answer = raw.ask(0, 7, body)
    ((_, ((_, code, offset, _, _),)),) = answer.list(lambda: (answer.text(), answer.list(
        lambda: (answer.int32(), answer.int16(), answer.int64(), answer.int64(), answer.int64()))))
    return code, offset
