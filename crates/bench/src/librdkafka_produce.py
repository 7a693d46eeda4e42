"""Produces records as fast as librdkafka takes them and prints the rate: address topic acks records bytes."""
import os
import sys
import time

from confluent_kafka import Producer

address, topic, acks, records, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
failed = [0]


def report(error, _message):
    failed[0] += error is not None


producer = Producer({
    "bootstrap.servers": address, "acks": acks, "linger.ms": 5, "queue.buffering.max.messages": 500000,
    "delivery.report.only.error": True, "on_delivery": report,
})
value = os.urandom(size)
begun = time.monotonic()
for n in range(records):
    while True:
        try:
            producer.produce(topic, value)
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
