"""How a film is searched."""

from __future__ import annotations

import msgspec


class VideoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`looks_per_second`: frames between looks are read but not searched; the model takes 0.05 s of
    one core per look. More looks keep apart who crosses; fewer are quicker."""

    looks_per_second: float = 10.0
    analysed_width_px: int = 768  # wider frames are scaled down; a person is still large enough
    faces_every_looks: int = 10  # the face cascade is dearer than the model
    smallest_face_px: int = 48  # below this a face cannot be recognised
    least_seconds: float = 1.0  # a track shorter than this is a flicker
    lost_seconds: float = 6.0  # a target unseen for so long has left
