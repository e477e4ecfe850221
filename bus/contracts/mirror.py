"""What the mirror says on both sites' `control.mirror-confirmed`: how far the second site has it.

In/out: a frozen struct, JSON. Never: a client; a decision about what is released.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

SOURCE_CLUSTER_KEY = "mirror.source.cluster.id"
"""The topic's key that makes a topic of our brokers a mirror of that cluster's."""
SOURCE_TOPIC_KEY = "mirror.source.topic.id"
"""The topic's key with the id, in hexadecimal digits, of the source's topic that it is copied from.
A topic made anew under the same name has another one."""
REFUSED_COMMITS_KEY = "mirror.refuses.commits.epoch"
"""The topic's key with the number of the site epoch under which a former primary's coordinators
take no commits of it: from the fence until the new primary takes records."""

_Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Name = Annotated[str, Meta(max_length=256)]


class MirrorConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """`control.mirror-confirmed`: every record of the partition below `offset` is at the target, on
    all its replicas that are in sync. `generation` is that of the mirror that says so."""

    source_cluster_id: _Name
    target_cluster_id: _Name
    topic: _Name
    partition: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    offset: _Count
    generation: _Count
    at_ms: _Count

    @property
    def key(self) -> bytes:
        """The record's key: two targets of one source do not replace one another's values."""
        return (
            f"{self.source_cluster_id}/{self.target_cluster_id}/{self.topic}-{self.partition}"
        ).encode()


_DECODER = msgspec.json.Decoder(MirrorConfirmed)


def decode_confirmed(value: bytes | None) -> MirrorConfirmed | None:
    """None for what is none: a newer program's, a tombstone, a foreign hand's."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
