"""Names of segments within a film store: `camera/day/start-digest.mp4`. Pure."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from bus.contracts.video_segments import VideoSegment

ENDING = ".mp4"
OPEN_FOLDER = "open"
"""Of a local store: where segments grow before they have a name."""
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def camera_folder(camera_ip: str) -> str:
    """One part of a path, another for each camera; an IPv4 address is its own."""
    plain = _UNSAFE.sub("_", camera_ip)[:80].lstrip(".")
    if plain and plain == camera_ip and plain != OPEN_FOLDER:
        return plain
    digest = hashlib.blake2b(camera_ip.encode("utf-8", "surrogatepass"), digest_size=6)
    return f"{plain}-{digest.hexdigest()}"


def segment_name(segment: VideoSegment) -> str:
    """Where a segment lies; the day is of UTC."""
    day = datetime.fromtimestamp(segment.start_ms / 1000, UTC).strftime("%Y%m%d")
    file = f"{segment.start_ms}-{segment.sha256[:12]}{ENDING}"
    return f"{camera_folder(segment.camera_ip)}/{day}/{file}"
