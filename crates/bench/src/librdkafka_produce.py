"""Produces records as fast as librdkafka takes them and prints the rate: address topic acks records bytes codec."""
import os
import sys
import time

from confluent_kafka import Producer

address, topic, acks, records, size, codec = sys.argv[1:4] + [int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]]
failed = [0]


def report(error, _message):
    failed[0] += error is not None


producer = Producer({
    "bootstrap.servers": address, "acks": acks, "linger.ms": 5, "queue.buffering.max.messages": 500000,
    "delivery.report.only.error": True, "on_delivery": report,
    "compression.type": codec, "enable.idempotence": acks == "all",
})
# Random letters, as Kafka's own tool makes them: they compress a little, and no record is like its neighbours.
letters = bytes(65 + byte % 26 for byte in range(256))
values = [os.urandom(size).translate(letters) for _ in range(min(records, 4096))]
begun = time.monotonic()
for n in range(records):
    while True:
        try:
            producer.produce(topic, values[n % len(values)])
            break
        except BufferError:
            producer.poll(0.01)
    if n % 1000 == 0:
        producer.poll(0)
left = producer.flush(120)
seconds = time.monotonic() - begun
if left or failed[0]:
    sys.exit(f"{left} records left, {failed[0]} failed")
print(f"{records} records sent, {records / seconds:.1f} records/sec")
