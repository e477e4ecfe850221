"""Searches a whole film and gives a report for every target that was seen in it, in the order in
which the targets left.

Core: `tracks`, `reports`; shells: `video_reader`, `detectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import cv2

from bus.domain.times import LocalTime
from ingest.senders.video.detectors import Detectors, Image
from ingest.senders.video.reports import Report, Reporter, Shot, VideoSource
from ingest.senders.video.settings import VideoSettings
from ingest.senders.video.tracks import Box, Detection, Track, Tracker
from ingest.senders.video.video_reader import VideoFrame, VideoReader

JPEG_QUALITY = 85
MARGIN = 0.15  # of the target's size, around its close-up


@dataclass(slots=True)
class _TargetTracker:
    """A tracker and the best pictures of what it follows. Invariant: a shot per live track."""

    tracker: Tracker
    shots: dict[int, Shot] = field(default_factory=dict)

    def process(self, frame: VideoFrame, found: list[Detection], scene: _Scene) -> list[Track]:
        """One moment; hands out ended tracks."""
        ended = self.tracker.step(frame.at_ms, found)
        for track in self.tracker.live:
            if track.last_ms == frame.at_ms and track.best.at_ms == frame.at_ms:
                box = track.best.detection.box
                self.shots[track.number] = Shot(scene.close_up(box), scene.whole())
        return ended

    def shot(self, track: Track) -> Shot:
        """The pictures of an ended track; they are handed out once."""
        return self.shots.pop(track.number)


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
    on_look: Callable[[VideoFrame], None] = lambda moment: None,
) -> Iterator[Report]:
    """Reports of all targets and faces of the film."""
    detectors, reporter = Detectors(settings), Reporter(source, settings, time)
    lost_ms = int(settings.lost_seconds * 1000)
    targets = _TargetTracker(Tracker(lost_ms))
    face_gap_ms = 1000 * settings.faces_every_looks / settings.looks_per_second
    faces = _TargetTracker(Tracker(lost_ms + int(face_gap_ms)))
    for look, frame in enumerate(
        video.read_frames(settings.looks_per_second, settings.analysed_width_px)
    ):
        scene = _Scene(frame.image)
        ended = targets.process(frame, detectors.targets(frame.image), scene)
        yield from _reports(ended, targets, reporter.target)
        if look % settings.faces_every_looks == 0:
            ended = faces.process(frame, detectors.faces(frame.image), scene)
            yield from _reports(ended, faces, reporter.face)
        on_look(frame)
    yield from _reports(targets.tracker.finish(), targets, reporter.target)
    yield from _reports(faces.tracker.finish(), faces, reporter.face)


def _reports(
    ended: list[Track], follower: _TargetTracker, report: Callable[[Track, Shot], Report | None]
) -> Iterator[Report]:
    for track in ended:
        made = report(track, follower.shot(track))
        if made is not None:
            yield made


def _jpeg(image: Image) -> bytes:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise RuntimeError("OpenCV could not encode a JPEG")
    return bytes(data)
