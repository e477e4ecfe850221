"""From an ended track to the record that is sent: contract keys, times, ids.

In: tracks, the film's place and start. Out: `Report`s. Never: OpenCV, files, clock.
A report's id depends only on film, checkpoint and track, so that looking at a film again changes
nothing in the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bus.domain.identity import sender_scoped_id
from bus.domain.times import LocalTime
from ingest.pictures.names import ROLES, picture_name
from ingest.video.boxes import Box, TargetClass
from ingest.video.settings import VideoSettings
from ingest.video.tracks import Track

UNKNOWN = "unknown"
CLASSES: dict[TargetClass, str] = {"person": "person", "vehicle": "vehicle"}
"""目标类别 of what is known; whatever else moved is unknown."""


@dataclass(frozen=True, slots=True)
class VideoSource:
    """Whose film this is: where it was taken, by which camera, when it began, who looks at it."""

    checkpoint_id: str
    camera_ip: str
    recognizer_ip: str
    film: str  # `video_identity`
    started_ms: int
    video_url: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One record. `pictures`: wire key of the address -> name in the picture store and JPEG."""

    kind: str  # video or face
    record_id: str
    captured_at_ms: int
    message: dict[str, Any]
    pictures: dict[str, tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Shot:
    """The pictures of a track's best sighting."""

    close_up: bytes
    scene: bytes


class Reporter:
    """Writes reports of one film. `recognised_by`: the model's name, or motion."""

    def __init__(
        self, place: VideoSource, settings: VideoSettings, time: LocalTime, recognised_by: str
    ) -> None:
        self._place = place
        self._recognised_by = recognised_by
        self._settings = settings
        self._time = time

    def target(self, track: Track, shot: Shot) -> Report | None:
        """A person, a vehicle or an unknown mover; None for a flicker."""
        lived_ms = track.last_ms - track.first_ms
        if lived_ms < self._settings.least_seconds * 1000:
            return None
        best, (kind, sure) = track.best, track.kind
        message = self._head("video", track, f"t{track.number}") | {
            "目标类别": CLASSES.get(kind, UNKNOWN),
            "目标编号": str(track.number),
            "出现时间": self._text(track.first_ms),
            "消失时间": self._text(track.last_ms),
            "目标框": _corners(best.detection.box),
            "置信度": round(sure, 3) if kind in CLASSES else 0.0,
            "识别方式": self._recognised_by,
            "视频地址": self._place.video_url,
        }
        return self._report("video", track, message, f"t{track.number}", "目标图片地址", shot)

    def face(self, track: Track, shot: Shot) -> Report | None:
        """A face that was seen more than once."""
        if len(track.sightings) < 2:
            return None
        message = self._head("face", track, f"f{track.number}")
        return self._report("face", track, message, f"f{track.number}", "人脸图片地址", shot)

    def _head(self, kind: str, track: Track, name: str) -> dict[str, object]:
        place = self._place
        return {
            "卡口编号": place.checkpoint_id,
            "抓拍时间": self._text(track.best.at_ms),
            "抓拍设备地址": place.camera_ip,
            "后端图片识别服务器地址": place.recognizer_ip,
            "记录编号": f"{place.film}-{name}",
        }

    def _report(
        self, kind: str, track: Track, message: dict[str, object], name: str, key: str, shot: Shot
    ) -> Report:
        place = self._place
        record_id = sender_scoped_id(
            place.film, place.camera_ip, kind, f"{place.checkpoint_id}/{name}"
        )
        return Report(
            kind=kind,
            record_id=record_id,
            captured_at_ms=place.started_ms + track.best.at_ms,
            message=message,
            pictures={
                key: (self._name(record_id, key, shot.close_up), shot.close_up),
                "场景图片地址": (self._name(record_id, "场景图片地址", shot.scene), shot.scene),
            },
        )

    def _name(self, record_id: str, key: str, picture: bytes) -> str:
        """Below the film, not below a day: looking again writes the same pictures."""
        role = ROLES[key.removesuffix("地址")]
        checkpoint = self._place.checkpoint_id
        return picture_name(f"film-{self._place.film}", checkpoint, record_id, role, picture)

    def _text(self, film_ms: int) -> str:
        return self._time.to_text(self._place.started_ms + film_ms)


def _corners(box: Box) -> list[int]:
    """x, y, width, height in pixels of the scene picture."""
    return [round(value) for value in (box.x, box.y, box.w, box.h)]
