"""The numbers of the codecs, without the codecs: whoever only names them is spared their libraries,
two megabytes of memory.

In: names. Out: numbers.
"""

from __future__ import annotations

from enum import IntEnum


class Compression(IntEnum):
    """Codec numbers as in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Compression:
        """The codec of Kafka's `compression.type` names; `uncompressed` is NONE."""
        if name == "uncompressed":
            return cls.NONE
        return cls[name.upper()]
