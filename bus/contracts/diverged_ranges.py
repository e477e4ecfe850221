"""Which records only a former primary had when its logs were cut: their ids, in parts. Pure.

In/out: a frozen struct, JSON. Never: a client. The site's store may have rows of these ids, which
the other site lacks.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_IDS = 1_000
"""Of one message: some 40 kB with ids of our own making."""
MAX_ID_CHARACTERS = 1_024
"""Ids of our own making have at most some hundred; a longer one is in no part."""
MAX_IDS_BYTES = 500_000
"""Of one message's ids in JSON: half of what a broker takes by default."""

_Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class DivergedRange(msgspec.Struct, frozen=True, kw_only=True):
    """`control.mirror-tails`: the records [offset, end_offset) of a partition were this site's own
    when site epoch `epoch` began, and were cut when the site came back; `ids` as the store has
    them."""

    epoch: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    topic: Annotated[str, Meta(max_length=256)]
    partition: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    offset: _Count
    end_offset: _Count
    ids: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_ID_CHARACTERS)], ...], Meta(max_length=MAX_IDS)
    ]

    @property
    def key(self) -> bytes:
        """The record's key: a command that is repeated says a part again under the same one."""
        return f"{self.epoch}/{self.topic}-{self.partition}/{self.offset}".encode()


_DECODER = msgspec.json.Decoder(DivergedRange)


def encode_diverged_range(part: DivergedRange) -> bytes:
    """As it goes on the topic."""
    return msgspec.json.encode(part)


def decode_diverged_range(value: bytes | None) -> DivergedRange | None:
    """None for what is none: a newer program's, a tombstone, a foreign hand's."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
