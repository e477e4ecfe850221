"""Where a record came from that the mirror has carried from one site's own topic to the other's.

In/out: the value of the header `mirror-origin`. Never: a client. A record with this header was made
at another site, or is the end of an incident that was (with the header of its opening, by the site
that has taken over): it is not carried on, and nobody is notified of it here. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MIRROR_ORIGIN = "mirror-origin"
_TEXT = re.compile(rb"([A-Za-z0-9_-]{1,64}):(0|[1-9][0-9]{0,17})")


class MirrorOrigin(NamedTuple):
    """The cluster, and the offset in the partition of the same name there."""

    cluster_id: str
    offset: int

    @property
    def value(self) -> bytes:
        """Of the header."""
        return f"{self.cluster_id}:{self.offset}".encode()


def parse_origin(value: bytes | None) -> MirrorOrigin | None:
    """None for a value that is none."""
    found = _TEXT.fullmatch(value or b"")
    if found is None:
        return None
    return MirrorOrigin(found[1].decode(), int(found[2]))
