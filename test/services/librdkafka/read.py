"""Reads a topic from its begin to its last stable offset, at read_committed.

The end is asked for at read_committed too, so that what an open transaction
holds back is not waited for. Only whole runs count: any error ends it with
exit code 1.
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

brokers, topic = sys.argv[1:3]
PATIENCE = 60.0

admin = AdminClient({"bootstrap.servers": brokers})
partitions = admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions


def offsets(spec):
    asked = admin.list_offsets(
        {TopicPartition(topic, p): spec for p in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=PATIENCE,
    )
    return {tp.partition: future.result().offset for tp, future in asked.items()}


first, end = offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest())
consumer = Consumer(
    {
        "bootstrap.servers": brokers,
        "group.id": "exactly-reread",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,  # an end of markers alone brings no message
    }
)
left = {p for p in partitions if end[p] > first[p]}
consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in left])
while left:
    message = consumer.poll(PATIENCE)
    if message is None:
        sys.exit(f"{topic}: nothing for {PATIENCE} s; partitions {sorted(left)} are not read to {end}")
    error = message.error()
    if error is not None and error.code() == -191:  # _PARTITION_EOF
        left.discard(message.partition())
        continue
    if error is not None:
        raise KafkaException(error)
    if message.offset() < end[message.partition()]:
        print(message.partition(), message.offset(), (message.key() or b"").hex())
consumer.close()
