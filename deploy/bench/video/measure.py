"""`./databus bench video`: the tracker on public truth, and the synopsis of a real film.

In: which figures, how often; `vtest.avi` in the cache, where the tests put it. Out: samples. Never:
an end because one figure cannot be measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bus.files.cache_folder import cache_folder
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt, chosen_figures
from deploy.bench.video import tracker_truth
from deploy.bench.video.label_reading import frames_off, pictures_of
from deploy.errors import OperatorError
from ingest.video.detection.port import Detector
from ingest.video.models.installed import installed_detector
from ingest.video.settings import VideoSettings
from ingest.video.synopsis.making import Synopsis, make_synopsis
from ingest.video.synopsis.searching import found_tubes
from ingest.video.synopsis.selection import TubeSelection
from ingest.video.synopsis.settings import SynopsisSettings
from ingest.video.synopsis.source_film import SourceFilm

PREFIX = "video-"
MOTA, SWITCHES = PREFIX + "tracker-mota", PREFIX + "tracker-switches"
LENGTH, TRACKS = PREFIX + "synopsis-length", PREFIX + "synopsis-tracks"
LABELS, COLLISIONS = PREFIX + "synopsis-labels", PREFIX + "synopsis-collisions"
SYNOPSIS = (LENGTH, TRACKS, LABELS, COLLISIONS)


def chosen(only: str) -> list[str]:
    """`tracker,synopsis` as names of figures; all where it is empty."""
    return chosen_figures(PREFIX, only)


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """The tracker with as many seeds as runs, then a synopsis per run."""
    recorder = SampleRecorder(names, repeat, say)
    if {MOTA, SWITCHES} & set(names):
        attempt("the tracker", partial(_measure_tracker, names, repeat, recorder), say)
        yield from recorder.samples()
    if set(SYNOPSIS) & set(names):
        for _ in range(repeat):
            attempt("the synopsis", partial(_measure_synopsis, names, recorder), say)
            yield from recorder.samples()


def yard() -> Path:
    """`vtest.avi` of Debian's package opencv-doc. Raises `OperatorError`."""
    path = cache_folder() / "films" / "vtest.avi"
    if not path.is_file():
        raise OperatorError(f"needs {path}: usr/share/doc/opencv-doc/examples/data/ of opencv-doc")
    return path


def needed_detector() -> Detector:
    """Raises `OperatorError` where it is not set up: motion alone is another figure."""
    model = installed_detector(cache_folder())
    if model is None:
        raise OperatorError("needs the detector: ./databus setup --with video")
    return model


def _measure_tracker(names: Sequence[str], repeat: int, recorder: SampleRecorder) -> None:
    ours_switches = plain_switches = 0
    for seed in range(1, repeat + 1):
        ours, plain = tracker_truth.compared(seed)
        ours_switches += ours.switches
        plain_switches += plain.switches
        if MOTA in names:
            recorder.add(MOTA, 100 * ours.mota, of=f"seed {seed}, plain {100 * plain.mota:.1f} %")
    if SWITCHES in names:
        if not plain_switches:
            raise OperatorError("the plain tracker never switched: more seeds are needed")
        share = ours_switches / plain_switches
        recorder.add(SWITCHES, share, of=f"{ours_switches} of {plain_switches}")


def _measure_synopsis(names: Sequence[str], recorder: SampleRecorder) -> None:
    settings = SynopsisSettings()
    film = SourceFilm(yard(), settings.width_px)
    tubes = found_tubes(
        film.path, film.fps, VideoSettings(), needed_detector(), lambda frame: None
    )
    selection = TubeSelection(settings.least_track_s)
    with tempfile.TemporaryDirectory(prefix="synopsis-") as name:
        out = Path(name) / "yard.webm"
        made = make_synopsis(film, tubes, selection, settings, out, Path(name))
        off = _most_off(made, out, film.fps)
    wanted = {one.track for one in selection.tracks(tubes, film.fps)}
    for figure, value, of in (
        (LENGTH, 100 * len(made.frames) / film.frame_count, f"{len(made.frames)} frames"),
        (TRACKS, 100 * len(made.tracks & wanted) / len(wanted), f"{len(wanted)} tracks"),
        (LABELS, off, f"{made.unlabelled} of {made.target_frames} without room"),
        (COLLISIONS, 100 * made.collided / made.target_frames, f"{made.collided:.0f} frames"),
    ):
        if figure in names:
            recorder.add(figure, value, of=of)


def _most_off(made: Synopsis, out: Path, fps: float) -> int:
    pictures = pictures_of(str(out))
    return max(
        frames_off(pictures[number], one, fps)
        for number, frame in enumerate(made.frames) for one in frame if one.label is not None
    )  # fmt: skip
