"""Parses the topics of a consumer's subscription.

None if the member's metadata is not in the consumer protocol's format: the bytes belong to the
clients.
"""

from __future__ import annotations

from struct import Struct

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")

MAX_TOPICS = 1_000_000
"""More than a member's metadata can name; a larger count is not a subscription."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topic names of a ConsumerProtocolSubscription of any version."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    if version < 0 or not 0 <= count <= MAX_TOPICS:
        return None
    topics = set()
    offset = _HEAD.size
    for _ in range(count):
        if offset + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, offset)
        offset += _LENGTH.size
        name = metadata[offset : offset + length]
        if length < 0 or len(name) != length:
            return None
        try:
            topics.add(name.decode())
        except UnicodeDecodeError:
            return None
        offset += length
    return frozenset(topics)
