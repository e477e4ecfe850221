"""Looks at a whole film and hands out a report for every target that was seen in it.

Core: `tracks`, `reports`; shells: `film`, `detectors`. In: a film and its place. Out: reports, in
the order in which their targets left. Never: sending (that is `delivery`), the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import cv2

from ingest.normalise.local_time import LocalTime
from ingest.video.detectors import Detectors, Frame
from ingest.video.film import Film, Moment
from ingest.video.reports import Place, Report, Reporter, Shot
from ingest.video.settings import VideoSettings
from ingest.video.tracks import Box, Detection, Track, Tracker

JPEG_QUALITY = 85
MARGIN = 0.15  # of the target's size, around its close-up


@dataclass(slots=True)
class _Follower:
    """A tracker and the best pictures of what it follows. Invariant: a shot per live track."""

    tracker: Tracker
    shots: dict[int, Shot] = field(default_factory=dict)

    def look(self, moment: Moment, found: list[Detection], scene: _Scene) -> list[Track]:
        """One moment; hands out ended tracks."""
        ended = self.tracker.step(moment.at_ms, found)
        for track in self.tracker.live:
            if track.last_ms == moment.at_ms and track.best.at_ms == moment.at_ms:
                box = track.best.detection.box
                self.shots[track.number] = Shot(scene.close_up(box), scene.whole())
        return ended

    def shot(self, track: Track) -> Shot:
        """The pictures of an ended track; they are handed out once."""
        return self.shots.pop(track.number)


class _Scene:
    """One frame; its picture is encoded at most once, and only when somebody wants it."""

    def __init__(self, frame: Frame) -> None:
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
    film: Film,
    place: Place,
    settings: VideoSettings,
    time: LocalTime,
    on_look: Callable[[Moment], None] = lambda moment: None,
) -> Iterator[Report]:
    """Reports of all targets and faces of the film."""
    detectors, reporter = Detectors(settings), Reporter(place, settings, time)
    lost_ms = int(settings.lost_seconds * 1000)
    targets = _Follower(Tracker(lost_ms))
    face_gap_ms = 1000 * settings.faces_every_looks / settings.looks_per_second
    faces = _Follower(Tracker(lost_ms + int(face_gap_ms)))
    for look, moment in enumerate(
        film.moments(settings.looks_per_second, settings.analysed_width_px)
    ):
        scene = _Scene(moment.frame)
        ended = targets.look(moment, detectors.targets(moment.frame), scene)
        yield from _reported(ended, targets, reporter.target)
        if look % settings.faces_every_looks == 0:
            ended = faces.look(moment, detectors.faces(moment.frame), scene)
            yield from _reported(ended, faces, reporter.face)
        on_look(moment)
    yield from _reported(targets.tracker.finish(), targets, reporter.target)
    yield from _reported(faces.tracker.finish(), faces, reporter.face)


def _reported(
    ended: list[Track], follower: _Follower, report: Callable[[Track, Shot], Report | None]
) -> Iterator[Report]:
    for track in ended:
        made = report(track, follower.shot(track))
        if made is not None:
            yield made


def _jpeg(image: Frame) -> bytes:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise RuntimeError("OpenCV could not encode a JPEG")
    return bytes(data)
