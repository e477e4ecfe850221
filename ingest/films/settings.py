"""Settings of films: where they are kept, how much, and what the recorder may open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from bus.contracts.video_segments import MAX_SEGMENT_MS
from bus.settings import NotNegative, Positive, Secret, SiteSettings

GIB = 1 << 30
SegmentSeconds = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEGMENT_MS // 2000)]


class FilmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Films of cameras. `url` is any fsspec URL; empty means the folder `films` of the data
    directory. `passwords`: a camera's address -> `name:password`."""

    url: str = ""
    # Cameras that are recorded here, separated by commas; empty: all whose register entry has a
    # stream. Several recorders share a site's cameras by it.
    cameras: str = ""
    segment_s: SegmentSeconds = 10  # a segment ends with the first keyframe after so long
    max_bytes: NotNegative = 0  # of all films; 0: no bound but the free space
    min_free_bytes: NotNegative = 2 * GIB  # of the disk; below it the oldest films go
    days: NotNegative = 0  # how long films are kept; 0: until there is no room
    # Days of a camera, where they differ.
    cameras_days: dict[str, NotNegative] = {}
    # Folders from which `databus film add` may take films, separated by colons; empty: any.
    roots: str = ""
    allow_loopback: bool = False  # for streams of this machine, as tests and demos have them
    passwords: dict[str, Secret] = {}
    connect_timeout_ms: Positive = 10_000
    silence_timeout_ms: Positive = 15_000  # without a picture for so long, a stream is lost

    def store_url(self, site: SiteSettings) -> str:
        """The fsspec URL of the film store."""
        return self.url or (site.data_path / "films").as_uri()

    def catalogue_path(self, site: SiteSettings) -> Path:
        """What the recorder knows of its segments."""
        return site.data_path / "recorder" / "catalogue.db"

    @property
    def chosen_cameras(self) -> frozenset[str]:
        """Those that are recorded here; empty: all."""
        return frozenset(filter(None, (one.strip() for one in self.cameras.split(","))))

    def days_of(self, camera_ip: str) -> int:
        """How long a camera's films are kept; 0: until there is no room."""
        return self.cameras_days.get(camera_ip, self.days)

    def may_read(self, path: Path) -> bool:
        """Whether a film may be taken from there."""
        roots = [Path(one).resolve() for one in self.roots.split(":") if one]
        return not roots or any(path.resolve().is_relative_to(root) for root in roots)
