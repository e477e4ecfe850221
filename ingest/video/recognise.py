"""Searches a film, or a part of it, and gives a report for every target that was seen in it, in the
order in which the targets left.

Core: `boxes`, `motion_model`, `tracker`, `tracks`, `parts`, `reports`; shells: `video_reader`,
`detection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import cv2

from bus.domain.times import LocalTime
from ingest.video.boxes import Box
from ingest.video.detection.faces import FaceDetector
from ingest.video.detection.port import Detector, Image
from ingest.video.detection.targets import TargetDetector, TargetSighting
from ingest.video.parts import WHOLE, PartTracks, VideoPart, merged, parts_of
from ingest.video.reports import Report, Reporter, Shot, VideoSource
from ingest.video.settings import VideoSettings
from ingest.video.tracker import CONFIRMED_LOOKS, Tracker
from ingest.video.tracks import Track
from ingest.video.video_reader import VideoFrame, VideoReader

TARGET, FACE = "video", "face"
MOTION = "motion"
BACKGROUND_LOOKS = 10  # before a part counts: the model knows the street, and its shadows
LEAD_LOOKS = 2 * CONFIRMED_LOOKS + 1  # more than a target can be hidden for: it is known again
JPEG_QUALITY = 85
MARGIN = 0.15  # of the target's size, around its close-up


class FoundTrack(NamedTuple):
    """A target (`video`) or a face. `shot`: None of one that was gone before the part counts."""

    kind: str
    track: Track
    shot: Shot | None


@dataclass(slots=True)
class _TargetTracker:
    """A tracker and the best pictures of what it follows. Invariant: a shot per live track that was
    seen since `counted_from_ms`."""

    kind: str
    tracker: Tracker
    counted_from_ms: int
    shots: dict[int, Shot] = field(default_factory=dict)

    def process(
        self, frame: VideoFrame, found: Sequence[TargetSighting], scene: _Scene
    ) -> Iterator[FoundTrack]:
        """One moment; hands out ended tracks."""
        boxes, colours = [one.detection for one in found], [one.colours for one in found]
        ended = self.tracker.step(frame.at_ms, boxes, colours)
        for track in self.tracker.live:
            if track.last_ms != frame.at_ms:
                continue
            best = track.best_since(self.counted_from_ms)
            if best is not None and best.at_ms == frame.at_ms:
                self.shots[track.number] = Shot(scene.close_up(best.detection.box), scene.whole())
        return self._handed_out(ended)

    def finish(self) -> Iterator[FoundTrack]:
        """The part is over."""
        return self._handed_out(self.tracker.finish())

    def _handed_out(self, ended: list[Track]) -> Iterator[FoundTrack]:
        for track in ended:
            yield FoundTrack(self.kind, track, self.shots.pop(track.number, None))


class _Scene:
    """One frame; its picture is encoded at most once, and only when it is used."""

    def __init__(self, frame: Image) -> None:
        self._frame = frame
        self._whole: bytes | None = None

    def whole(self) -> bytes:
        """The scene as JPEG."""
        if self._whole is None:
            self._whole = _jpeg(self._frame)
        return self._whole

    def close_up(self, box: Box) -> bytes:
        """The target with a little around it."""
        height, width = self._frame.shape[:2]
        dx, dy = box.w * MARGIN, box.h * MARGIN
        left, top = max(0, int(box.x - dx)), max(0, int(box.y - dy))
        right = min(width, max(left + 1, int(box.x + box.w + dx)))
        bottom = min(height, max(top + 1, int(box.y + box.h + dy)))
        return _jpeg(self._frame[min(top, height - 1) : bottom, min(left, width - 1) : right])


def recognise(
    video: VideoReader,
    source: VideoSource,
    settings: VideoSettings,
    time: LocalTime,
    model: Detector | None = None,
    on_frame: Callable[[VideoFrame], None] = lambda moment: None,
) -> Iterator[Report]:
    """Reports of all targets and faces of the film; without a model, of what moves."""
    reporter = Reporter(source, settings, time, MOTION if model is None else model.name)
    for found in find_tracks(video, settings, WHOLE, model, on_frame):
        report = report_of(reporter, found)
        if report is not None:
            yield report


def report_of(reporter: Reporter, found: FoundTrack) -> Report | None:
    """None of a flicker."""
    if found.shot is None:
        return None
    report = reporter.face if found.kind == FACE else reporter.target
    return report(found.track, found.shot)


def find_tracks(
    video: VideoReader,
    settings: VideoSettings,
    part: VideoPart = WHOLE,
    model: Detector | None = None,
    on_frame: Callable[[VideoFrame], None] = lambda moment: None,
    *,
    with_faces: bool = True,
) -> Iterator[FoundTrack]:
    """All tracks of a part of the film, flickers too, in the order in which they end; without
    faces for a seventh less of work."""
    detector, face_detector = TargetDetector(model), FaceDetector(settings.smallest_face_px)
    rate, counted_from_ms = settings.looks_per_second, video.at_ms(part.counted_from)
    lost_ms = int(settings.lost_seconds * 1000)
    face_gap_ms = 1000 * settings.faces_every_looks / rate
    targets = _TargetTracker(TARGET, Tracker(lost_ms), counted_from_ms)
    faces = _TargetTracker(FACE, Tracker(lost_ms + int(face_gap_ms)), counted_from_ms)
    frames_per_face = video.frames_per_look(rate) * settings.faces_every_looks
    for frame in video.read_frames(rate, settings.analysed_width_px, part.frames):
        scene = _Scene(frame.image)
        yield from targets.process(frame, detector.find(frame.image), scene)
        if with_faces and frame.frame_number % frames_per_face == 0:
            seen = [TargetSighting(one, None) for one in face_detector.find(frame.image)]
            yield from faces.process(frame, seen, scene)
        on_frame(frame)
    yield from targets.finish()
    yield from faces.finish()


def parts_of_video(video: VideoReader, settings: VideoSettings, count: int) -> list[VideoPart]:
    """As many parts, each with as long a lead as the background and a hidden target need."""
    lost_looks = math.ceil(settings.lost_seconds * settings.looks_per_second) + LEAD_LOOKS
    return parts_of(
        video.frame_count, video.frames_per_look(settings.looks_per_second), count,
        lead_looks=max(lost_looks, BACKGROUND_LOOKS) + settings.faces_every_looks,
        aligned_looks=settings.faces_every_looks,
    )  # fmt: skip


def merged_found(
    video: VideoReader, parts: Sequence[VideoPart], found: Sequence[Sequence[FoundTrack]]
) -> list[FoundTrack]:
    """The tracks of the whole film from those found in its parts, with the best picture of each."""
    return [
        FoundTrack(kind, one.track, shots[one.best_of])
        for kind in (TARGET, FACE)
        for shots in [_shots(kind, found)]
        for one in merged([
            PartTracks(video.at_ms(part.counted_from), [t.track for t in of_part if t.kind == kind])
            for part, of_part in zip(parts, found, strict=True)
        ])
    ]


def _shots(kind: str, found: Sequence[Sequence[FoundTrack]]) -> dict[tuple[int, int], Shot | None]:
    return {
        (part, one.track.number): one.shot
        for part, of_part in enumerate(found) for one in of_part if one.kind == kind
    }  # fmt: skip


def _jpeg(image: Image) -> bytes:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise RuntimeError("OpenCV could not encode a JPEG")
    return bytes(data)
