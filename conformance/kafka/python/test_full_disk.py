"""A full disk (case X01): what is produced meanwhile is refused so that it is sent again, reading goes on, it heals alone."""

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaStorageError

from fourfold import eventually
from fulldisk import FullDisk
from kit import admin, consumer, create, producer, read_all, send, take


@pytest.fixture
def broker():
    one = FullDisk()
    try:
        yield one.start()
    finally:
        one.close()


def test_x01_producers_send_again_until_there_is_room_and_all_else_goes_on(broker, name):
    create(broker, name)
    create(broker, name + "-deleted")
    create(broker, name + "-filled")
    sure = producer(broker, retry_backoff_ms=50)
    send(sure, name, [(None, b"before")])
    broker.take()

    def refusal():
        # Without retries of the client's own the refusal is seen; what comes before the volume is looked at is taken.
        with_none = producer(broker, retries=0, enable_idempotence=False)
        try:
            with_none.send(name + "-filled", bytes(100_000)).get(30)
        except KafkaStorageError as error:
            return error
        finally:
            with_none.close()
    assert KafkaStorageError.retriable
    eventually("a refusal", refusal)
    waits = [sure.send(name, b"held %d" % number) for number in range(3)]

    reader = consumer(broker, name, group=name)
    first = take(reader, 1)[0]
    assert first.value == b"before"
    place = TopicPartition(name, 0)
    reader.commit({place: OffsetAndMetadata(first.offset + 1, "", -1)})
    assert reader.committed(place) == first.offset + 1
    reader.close()
    by = admin(broker)
    by.delete_topics([name + "-deleted"])
    by.close()
    assert not any(one.is_done for one in waits)

    broker.give_back()
    offsets = [one.get(30).offset for one in waits]
    sure.close()
    got = read_all(broker, name)[0]
    assert [one.value for one in got if one.offset in offsets] == [b"held 0", b"held 1", b"held 2"]
    assert got[0].value == b"before" and len(got) == 4
    broker.kill()
    broker.start()
    assert [one.value for one in read_all(broker, name)[0]] == [one.value for one in got]
