"""Finds the tubes of a film with the detector and tracker of `ingest.video`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ingest.video.boxes import Box
from ingest.video.detection.port import Detector
from ingest.video.parts import WHOLE
from ingest.video.recognise import TARGET, find_tracks
from ingest.video.settings import VideoSettings
from ingest.video.synopsis.tubes import Tube, TubePoint, dense_tubes
from ingest.video.tracker import CONFIRMED_LOOKS
from ingest.video.tracks import Track
from ingest.video.video_reader import VideoFrame, VideoReader


def found_tubes(
    path: Path, fps: float, settings: VideoSettings, model: Detector | None,
    on_frame: Callable[[int], None],
) -> list[Tube]:  # fmt: skip
    """Of all targets that were seen as often as a track needs to count; pixels of the film."""
    frames: dict[int, int] = {}
    reader = VideoReader(path)

    def seen(frame: VideoFrame) -> None:
        frames[frame.at_ms] = frame.frame_number
        on_frame(frame.frame_number)

    try:
        scale = reader.scale(settings.analysed_width_px)
        tracks = [
            one.track
            for one in find_tracks(reader, settings, WHOLE, model, seen, with_faces=False)
            if one.kind == TARGET and len(one.track.sightings) >= CONFIRMED_LOOKS
        ]
    finally:
        reader.close()
    tracks.sort(key=lambda track: track.number)
    return [
        tube for track in tracks
        for tube in dense_tubes(track.number, _points(track, frames, scale), fps)
    ]  # fmt: skip


def _points(track: Track, frames: dict[int, int], scale: float) -> list[TubePoint]:
    kind = track.kind[0]
    return [
        TubePoint(frames[one.at_ms], _scaled(one.detection.box, scale), kind)
        for one in track.sightings
    ]


def _scaled(box: Box, scale: float) -> Box:
    return Box(*(side * scale for side in box.coordinates))
