"""Which of the schema tables become code: all but those of messages that nobody here speaks.

In: the name of an API or of a persisted message. Out: whether it is generated. A table that is not
generated stays checked against Kafka's jars. To speak its message, take its line out and generate.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

NOT_GENERATED = {
    "GetTelemetrySubscriptions": "no metrics of clients",
    "PushTelemetry": "no metrics of clients",
    "WriteTxnMarkers": "no transactions yet",
    "Share*": "no share groups",
    "*ShareGroup*": "no share groups",
    "StreamsGroup*": "no groups of Kafka Streams",
    "ConsumerGroupMetadata*": "classic groups only; what is recorded of others is left alone",
    "ConsumerGroupPartitionMetadata*": "classic groups only",
    "ConsumerGroupMemberMetadata*": "classic groups only",
    "ConsumerGroupTargetAssignment*": "classic groups only",
    "ConsumerGroupCurrentMemberAssignment*": "classic groups only",
    "ConsumerGroupRegularExpression*": "classic groups only",
    "RemoteLogSegmentMetadata*": "no tiered storage",
    "RemotePartitionDeleteMetadata*": "no tiered storage",
    "AbortedTxn": "no transactions yet",
    "ProducerSnapshot": "broker/log writes it by itself",
    "RequestHeader": "bus/protocol/frames.py reads and writes headers by itself",
    "ResponseHeader": "bus/protocol/frames.py reads and writes headers by itself",
}
"""The name of an API or message, or a pattern of names, and why it is not generated."""


def is_generated(name: str) -> bool:
    """Whether a message, or an API with its two, has a codec."""
    return not any(fnmatchcase(name, pattern) for pattern in NOT_GENERATED)
