"""Of boxes that are one target found several times, the surest. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.video.boxes import Detection


def strongest(found: Iterable[Detection], overlap: float) -> list[Detection]:
    """The surest first; of two of one class that overlap by so much, the less sure one goes."""
    kept: list[Detection] = []
    for one in sorted(found, key=lambda d: -d.score):
        if all(one.kind != other.kind or one.box.overlap(other.box) < overlap for other in kept):
            kept.append(one)
    return kept
