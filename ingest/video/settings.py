"""How a film is searched."""

from __future__ import annotations

import msgspec


class VideoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`looks_per_second`: frames between looks are read but not searched; the people detector takes
    0.07 s (of two cores) per look at 768 pixels of width, so that a film is analysed faster than it
    plays."""

    looks_per_second: float = 5.0
    analysed_width_px: int = 768  # wider frames are scaled down; a person is still large enough
    faces_every_looks: int = 5  # the face cascade is as dear as the people detector
    smallest_face_px: int = 48  # below this a face cannot be recognised
    smallest_mover_share: float = 0.001  # of the picture; smaller blobs are leaves and noise
    restless_share: float = 0.35  # more moving picture than this: the camera moves, not the world
    person_score: float = 0.3  # of the linear SVM; below it there are too many lamp posts
    person_share: float = 0.15  # of a track's looks in which the people detector must agree
    least_seconds: float = 1.0  # a track shorter than this is a flicker
    lost_seconds: float = 1.2  # a target unseen for so long has left
