"""What a rule would have hit among stored records, piece by piece: what the watch list says to
whoever asks. Pure.
"""

from __future__ import annotations

import msgspec

DAY_MS = 86_400_000
MOST_WINDOW_MS = DAY_MS + 7_200_000
"""A piece lies within one day, which has 25 hours once a year: so that none takes long to find."""


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Of records captured in [from_ms, until_ms) the next piece, newest first; `cursor` is that of
    the piece before, empty: from the newest on."""

    from_ms: int
    until_ms: int
    cursor: str = ""


class PreviewPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`hits`: checkpoint → records that the rule meets; `read`: how many were looked at; an empty
    `cursor` ends the window. Counts alone: the records themselves are shown to nobody before a rule
    is in force."""

    hits: dict[str, int]
    read: int
    cursor: str = ""


class InvalidWindow(ValueError):
    """A window that ends before it begins, or is longer than a piece may be."""


def check_window(asked: PreviewRequest) -> None:
    """Raise `InvalidWindow`."""
    if not 0 <= asked.from_ms < asked.until_ms <= asked.from_ms + MOST_WINDOW_MS:
        hours = MOST_WINDOW_MS // 3_600_000
        raise InvalidWindow(f"a preview is asked for a day at a time: 1 ms to {hours} hours")
