"""The records of the positions topic: how far the target has each partition of the source. Pure.

In: keys and values of a compacted topic at the target. Out: the newest `SourcePosition` of each
partition, the newest instance. Never: a record passed over that cannot be read; going on from an
older position would copy records twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.client.model import TopicPartition
from bus.protocol.wire import Buffer

TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
    "retention.ms": "-1",
}
"""Small segments: a mirror reads the topic from its beginning when it starts."""


def positions_topic(source_cluster_alias: str) -> str:
    """Its name at the target."""
    return f"mirror-positions.{source_cluster_alias}.internal"


class PositionsError(Exception):
    """A record of the positions topic that this version cannot read; the text says which."""


class PositionKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="position"):
    """A partition of a source."""

    source_cluster_id: str
    topic: str
    partition: int


class InstanceKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="instance"):
    """The mirror of a source, whichever process it is."""

    source_cluster_id: str


class SourcePosition(msgspec.Struct, frozen=True):
    """`offset`: the next one of the source that is not at the target. `target_offset`: where the
    target's partition ended before the round that came to it, at least. The ids are those of the
    topics, in hexadecimal digits."""

    offset: int
    target_offset: int
    source_topic_id: str
    target_topic_id: str


class MirrorInstance(msgspec.Struct, frozen=True):
    """The newest process that copies from a source."""

    generation: int


_KEYS = msgspec.json.Decoder(PositionKey | InstanceKey)
_POSITIONS = msgspec.json.Decoder(SourcePosition)
_INSTANCES = msgspec.json.Decoder(MirrorInstance)

encode = msgspec.json.encode
"""A key or a value as it stands in the topic."""


def instance_in(key: Buffer | None, value: Buffer | None) -> tuple[str, int] | None:
    """The source's cluster id and the generation, where the record is of an instance."""
    try:
        of = _KEYS.decode(bytes(key or b""))
        if not isinstance(of, InstanceKey) or value is None:
            return None
        return of.source_cluster_id, _INSTANCES.decode(bytes(value)).generation
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # `PositionTable` names it


class PositionTable:
    """What the topic says, record by record. Invariant: the newest record of a key counts."""

    def __init__(self) -> None:
        self._positions: dict[PositionKey, SourcePosition] = {}

    def clear(self) -> None:
        """Of a topic that is gone."""
        self._positions.clear()

    def apply(self, key: Buffer | None, value: Buffer | None) -> None:
        """The next record. A value of None removes its key. Raises PositionsError."""
        try:
            of = _KEYS.decode(bytes(key or b""))
            if isinstance(of, InstanceKey):
                if value is not None:
                    _INSTANCES.decode(bytes(value))  # read by `instance_in`
            elif value is None:
                self._positions.pop(of, None)
            else:
                self._positions[of] = _POSITIONS.decode(bytes(value))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PositionsError(f"key {bytes(key or b'')[:80]!r}: {error}") from None

    def position(self, source_cluster_id: str, partition: TopicPartition) -> SourcePosition | None:
        """Of one partition; None: it was never copied."""
        return self._positions.get(PositionKey(source_cluster_id, *partition))

    def topic_ids(self, source_cluster_id: str) -> dict[str, str]:
        """The target's topic ids of every topic that was copied from a source."""
        return {
            key.topic: position.target_topic_id
            for key, position in self._positions.items()
            if key.source_cluster_id == source_cluster_id
        }
