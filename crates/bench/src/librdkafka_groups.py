"""Follows a topic with several groups through librdkafka: address topic groups records; ends when each had so many."""
import sys

from confluent_kafka import Consumer

address, topic, groups, records = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
readers = []
for n in range(groups):
    reader = Consumer({
        "bootstrap.servers": address, "group.id": f"{topic}-{n}", "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": 65536,
    })
    reader.subscribe([topic])
    readers.append([reader, 0])
while any(had < records for _, had in readers):
    for of in readers:
        got = of[0].consume(5000, 0.02) if of[1] < records else []
        failed = [message.error() for message in got if message.error()]
        if failed:
            sys.exit(f"consuming failed: {failed[0]}")
        of[1] += len(got)
for reader, _ in readers:
    reader.close()
