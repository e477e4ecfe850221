"""The records of MirrorMaker 2's own topics, in its formats (KIP-382, KIP-716). Pure.

In: aliases, groups, offsets. Out: keys and values as `connect-mirror-client` 4.3 reads them, so
that `RemoteClusterUtils.translateOffsets` works. Topics with the same name on both sides are what
MirrorMaker calls IdentityReplicationPolicy, with the source's alias DefaultReplicationPolicy.

Formats: Kafka's `Schema` of INT16, INT32, INT64 (big-endian) and STRING (INT16 length, UTF-8).
Values of heartbeats and checkpoints begin with their version, an INT16 of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from bus.protocol.wire import Buffer

HEARTBEATS = "heartbeats"
TOPIC_CONFIGS = {"cleanup.policy": "compact"}
_VERSION = Struct(">h")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_OFFSET = Struct(">q")
_OFFSETS = Struct(">qq")


def checkpoints_topic(source_alias: str) -> str:
    """Of groups of the source; at the target."""
    return f"{source_alias}.checkpoints.internal"


def offset_syncs_topic(source_alias: str) -> str:
    """At the target, as MirrorMaker names it with `offset-syncs.topic.location=target`: nothing is
    written at the source."""
    return f"mm2-offset-syncs.{source_alias}.internal"


class MirrorMakerRecordError(ValueError):
    """Bytes that are no such record."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `source_offset` of the source is at `target_offset` of the target."""

    topic: str
    partition: int
    source_offset: int
    target_offset: int

    @property
    def key(self) -> bytes:
        """Of its record."""
        return _string(self.topic) + _PARTITION.pack(self.partition)

    @property
    def value(self) -> bytes:
        """Of its record."""
        return _OFFSETS.pack(self.source_offset, self.target_offset)


@dataclass(frozen=True, slots=True)
class MirrorCheckpoint:
    """A group that committed `source_offset` at the source goes on at `target_offset`."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str

    @property
    def key(self) -> bytes:
        """Of its record."""
        return _string(self.group) + _string(self.topic) + _PARTITION.pack(self.partition)

    @property
    def value(self) -> bytes:
        """Of its record."""
        offsets = _OFFSETS.pack(self.source_offset, self.target_offset)
        return _VERSION.pack(0) + offsets + _string(self.metadata)


@dataclass(frozen=True, slots=True)
class MirrorHeartbeat:
    """The mirror lived at this time."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        """Of its record."""
        return _string(self.source_alias) + _string(self.target_alias)

    @property
    def value(self) -> bytes:
        """Of its record."""
        return _VERSION.pack(0) + _OFFSET.pack(self.timestamp_ms)


def read_offset_sync(key: Buffer | None, value: Buffer | None) -> OffsetSync:
    """Raises MirrorMakerRecordError."""
    raw = bytes(key or b"")
    try:
        (length,) = _LENGTH.unpack_from(raw, 0)
        end = _LENGTH.size + length
        if length < 0 or end + _PARTITION.size != len(raw):
            raise MirrorMakerRecordError(f"an offset sync has the key {raw[:80]!r}")
        topic = raw[_LENGTH.size : end].decode()
        (partition,) = _PARTITION.unpack_from(raw, end)
        source, target = _OFFSETS.unpack(bytes(value or b""))
    except (StructError, UnicodeDecodeError) as error:
        raise MirrorMakerRecordError(f"{raw[:80]!r} is no offset sync: {error}") from None
    return OffsetSync(topic, partition, source, target)


def _string(text: str) -> bytes:
    raw = text.encode()
    return _LENGTH.pack(len(raw)) + raw
