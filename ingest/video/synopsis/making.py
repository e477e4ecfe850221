"""Makes a synopsis of a film from the tubes of its targets.

Core: `tubes`, `selection`, `energy`, `placement`, `labels`, `synopsis_map`; shells: `source_film`,
`background`, `patch_file`, `webm_file`. The film is read twice: for the background, then to cut the
targets out; what was cut out lies in a file, so that memory does not grow with the film.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.video.boxes import Box
from ingest.video.detection.port import Image
from ingest.video.synopsis.background import BackgroundBuilder, Backgrounds
from ingest.video.synopsis.colour_names import NAMES, Counts, colour_counts, colours_of_counts
from ingest.video.synopsis.drawing import (
    PlacedLabel,
    blend,
    draw_labels,
    label_size,
    lit,
    track_colour,
)  # fmt: skip
from ingest.video.synopsis.energy import LEFT_OUT, TubeEnergy
from ingest.video.synopsis.labels import LabelOffset, label_box, label_text, place_labels
from ingest.video.synopsis.patch_file import Patch, PatchFile
from ingest.video.synopsis.placement import arranged
from ingest.video.synopsis.selection import TubeSelection
from ingest.video.synopsis.settings import SynopsisSettings
from ingest.video.synopsis.soft_mask import exposure, region_of, soft_mask
from ingest.video.synopsis.source_film import SourceFilm, SourceFrame
from ingest.video.synopsis.synopsis_map import MappedTarget
from ingest.video.synopsis.tubes import Tube, condensed, length_for, pieces
from ingest.video.synopsis.webm_file import WebmFile

LEAST_S = 10.0  # of a synopsis, where a target is that long: it is not cut into pieces then
FADE_S = 0.3  # a piece of a way begins and ends in the middle of the picture
NO_PATCH = -1

Row = NDArray[np.float64]
Floats = NDArray[np.float32]
Progress = Callable[[str, int], None]
"""What is done, and the frame of the film or of the synopsis."""


class NoTarget(Exception):
    """No target of the film is what was asked for."""


@dataclass(slots=True)
class _TubePatches:
    """What is shown of a tube, and the number of the patch of each of its frames."""

    tube: Tube
    patches: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=lambda: np.zeros(len(NAMES), np.int64))


@dataclass(frozen=True, slots=True)
class _PlacedTube:
    """A part of a tube, and where it begins in the synopsis."""

    tube: Tube
    patches: Sequence[int]
    start: int


@dataclass(frozen=True, slots=True)
class Synopsis:
    """What was made. `frames`: as in its map. `collided`: frames of targets that are hidden by
    others or hide them, of `target_frames`; `unlabelled`: those without room for a label."""

    frames: list[list[MappedTarget]]
    tracks: frozenset[int]
    chosen: frozenset[int]
    energy: float
    collided: float
    target_frames: int
    unlabelled: int


class _ActiveBoxes:
    """The boxes of all tubes, frame by frame."""

    def __init__(self, tubes: Sequence[Tube]) -> None:
        self._waiting = sorted(tubes, key=lambda tube: tube.first, reverse=True)
        self._active: list[Tube] = []

    def at(self, frame: int) -> list[tuple[Tube, Row]]:
        """`frame` grows from call to call; the tubes have every frame."""
        while self._waiting and self._waiting[-1].first <= frame:
            self._active.append(self._waiting.pop())
        self._active = [one for one in self._active if one.last >= frame]
        return [(one, one.boxes[frame - one.first]) for one in self._active]


def make_synopsis(
    film: SourceFilm, tubes: Sequence[Tube], selection: TubeSelection, settings: SynopsisSettings,
    out: Path, folder: Path, begun_ms: int | None = None,
    progress: Progress = lambda what, at: None,
) -> Synopsis:  # fmt: skip
    """Write the film. `tubes`: all targets of the source (every frame of each, pixels of the
    film); `folder`: for what lies on disk meanwhile; `begun_ms`: the time of day of the first
    frame. Raises `NotAVideo`, `NoTarget`, `PatchFileError`, OSError."""
    chosen = selection.tracks(tubes, film.fps)
    if not chosen:
        raise NoTarget("no target of the film is what was asked for")
    seen = [one.scaled(film.scale) for one in tubes]
    cut = [
        _TubePatches(condensed(one.scaled(film.scale), film.fps, settings.speed)) for one in chosen
    ]
    backgrounds = _learn_background(film, seen, settings, folder, progress)
    with PatchFile(folder / "patches", settings.patches_bytes) as patches:
        _extract(film, seen, cut, backgrounds, patches, progress)
        for one in cut:
            one.tube = replace(one.tube, colours=colours_of_counts(one.counts))
        kept = {id(tube) for tube in selection.coloured([one.tube for one in cut])}
        cut = [one for one in cut if id(one.tube) in kept]
        if not cut:
            raise NoTarget("no target of the film has that colour")
        length = synopsis_frames([one.tube for one in cut], film, settings)
        energy, placed = _placed(cut, length, film, settings)
        builder = _PictureBuilder(film, backgrounds, patches, placed, length, begun_ms)
        with WebmFile(out, film.fps, film.size) as webm:
            for number in range(length):
                webm.write(builder.picture(number))
                progress("composed", number)
    return Synopsis(
        builder.mapped, frozenset(one.tube.track for one in placed),
        frozenset(one.tube.track for one in cut), energy.total(), energy.collided(),
        sum(len(one.tube) for one in placed), builder.unlabelled,
    )  # fmt: skip


def synopsis_frames(tubes: Sequence[Tube], film: SourceFilm, settings: SynopsisSettings) -> int:
    """How long it becomes: as asked, else as dense as asked, but no longer than the share of the
    film that is allowed, and long enough for one target's way."""
    fps, count = film.fps, film.frame_count
    if settings.length_s is not None:
        return max(1, min(count, round(settings.length_s * fps)))
    wanted = length_for(tubes, settings.density, film.size[0] * film.size[1])
    way = min(max(len(one) for one in tubes), round(LEAST_S * fps))
    return max(1, min(max(wanted, way), int(settings.most_share * count)))


def _learn_background(
    film: SourceFilm, seen: Sequence[Tube], settings: SynopsisSettings, folder: Path,
    progress: Progress,
) -> Backgrounds:  # fmt: skip
    spacing = max(settings.background_s * film.fps, film.frame_count / settings.backgrounds)
    builder, active = BackgroundBuilder(folder, max(1, round(spacing))), _ActiveBoxes(seen)
    for frame in film.frames():
        boxes = [tuple(map(float, box)) for _, box in active.at(frame.number)]
        builder.add(frame.number, frame.image, boxes)
        progress("background", frame.number)
    last = max(tube.last for tube in seen)
    if last >= film.frame_count:
        raise NoTarget(
            f"the tracks name frame {last + 1}, and the film has {film.frame_count}: they are of"
            " another film"
        )
    return builder.finish(film.frame_count)


def _extract(
    film: SourceFilm, seen: Sequence[Tube], cut: Sequence[_TubePatches], backgrounds: Backgrounds,
    patches: PatchFile, progress: Progress,
) -> None:  # fmt: skip
    by_frame: dict[int, list[tuple[_TubePatches, int]]] = {}
    for one in cut:
        for position, number in enumerate(one.tube.frames):
            by_frame.setdefault(int(number), []).append((one, position))
    active = _ActiveBoxes(seen)
    for frame in film.frames():
        others = active.at(frame.number)
        wanted = by_frame.pop(frame.number, [])
        if wanted:
            _extract_frame(frame, wanted, others, backgrounds, patches)
        progress("cut", frame.number)


def _extract_frame(
    frame: SourceFrame, wanted: Sequence[tuple[_TubePatches, int]],
    others: Sequence[tuple[Tube, Row]],
    backgrounds: Backgrounds, patches: PatchFile,
) -> None:  # fmt: skip
    behind = backgrounds.whole(frame.number)
    behind *= exposure(frame.image, behind)
    for one, position in wanted:
        box = one.tube.boxes[position]
        region = region_of(box, (frame.image.shape[1], frame.image.shape[0]))
        if region is None:
            one.patches.append(NO_PATCH)
            continue
        part = frame.image[region]
        rivals = [
            tuple(map(float, other)) for tube, other in others
            if tube.track != one.tube.track and _touch(box, other)
        ]  # fmt: skip
        mask = soft_mask(part, behind[region], region, tuple(map(float, box)), rivals)
        one.counts += colour_counts(part, mask)
        blue, green, red = (float(mean) for mean in behind[region].mean(axis=(0, 1)))
        patch = Patch(region[1].start, region[0].start, part, mask, (blue, green, red))
        one.patches.append(patches.append(patch))


def _touch(box: Row, other: Row) -> bool:
    """Whether they are near enough to be mistaken for each other."""
    wide, high = 0.5 * float(box[2]), 0.5 * float(box[3])
    return bool(
        box[0] - wide < other[0] + other[2] and other[0] < box[0] + box[2] + wide
        and box[1] - high < other[1] + other[3] and other[1] < box[1] + box[3] + high
    )  # fmt: skip


def _placed(
    cut: Sequence[_TubePatches], length: int, film: SourceFilm, settings: SynopsisSettings
) -> tuple[TubeEnergy, list[_PlacedTube]]:
    parts: list[tuple[Tube, Sequence[int]]] = []
    for one in cut:
        position = 0
        for part in pieces(one.tube, length):
            parts.append((part, one.patches[position : position + len(part)]))
            position += len(part)
    energy = TubeEnergy([tube for tube, _ in parts], length, film.size, film.fps, settings.order)
    starts = arranged(energy, settings.sweeps, np.random.default_rng(settings.seed))
    return energy, [
        _PlacedTube(tube, numbers, int(start))
        for (tube, numbers), start in zip(parts, starts, strict=True) if start != LEFT_OUT
    ]  # fmt: skip


class _PictureBuilder:
    """Invariant: `mapped` has the targets of the pictures that were made."""

    def __init__(
        self, film: SourceFilm, backgrounds: Backgrounds, patches: PatchFile,
        placed: Sequence[_PlacedTube], length: int, begun_ms: int | None,
    ) -> None:  # fmt: skip
        self._film, self._backgrounds, self._patches = film, backgrounds, patches
        self._pieces, self._length, self._begun_ms = placed, length, begun_ms
        self._fade = max(1, round(FADE_S * film.fps))
        self._offsets: dict[int, LabelOffset] = {}
        self.mapped: list[list[MappedTarget]] = []
        self.unlabelled = 0

    def picture(self, number: int) -> Image:
        """Of one frame of the synopsis; they are made in their order."""
        film = self._film
        moment = number / max(1, self._length - 1) * (film.frame_count - 1)
        canvas = self._backgrounds.whole(moment)
        ground = canvas.copy()
        drawn = sorted(self._at(number), key=lambda one: _foot(self._pieces[one[0]], one[1]))
        for key, position in drawn:
            self._draw(canvas, ground, self._pieces[key], position)
        picture: Image = np.clip(canvas + 0.5, 0, 255).astype(np.uint8)
        self._label(picture, drawn)
        return picture

    def _at(self, number: int) -> Iterator[tuple[int, int]]:
        """The pieces that are seen, and the position of the frame in each."""
        for key, one in enumerate(self._pieces):
            position = number - one.start
            if 0 <= position < len(one.tube) and one.patches[position] != NO_PATCH:
                yield key, position

    def _draw(
        self, canvas: Floats,
        ground: Floats, one: _PlacedTube, position: int,
    ) -> None:  # fmt: skip
        patch = self._patches.read(one.patches[position])
        height, width = patch.mask.shape
        region = slice(patch.top, patch.top + height), slice(patch.left, patch.left + width)
        edge = min(position, len(one.tube) - 1 - position) + 1
        blend(canvas, ground, lit(patch, ground[region]), min(1.0, edge / (self._fade + 1)))

    def _label(
        self, picture: Image,
        drawn: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        film, boxes, texts = self._film, dict[int, Box](), dict[int, str]()
        for key, position in drawn:
            tube = self._pieces[key].tube
            boxes[key] = Box(*(float(one) for one in tube.boxes[position]))
            at_ms = film.times_ms[int(tube.frames[position])]
            texts[key] = label_text(at_ms, film.fps, self._begun_ms)
        sizes = {key: label_size(text) for key, text in texts.items()}
        offsets = place_labels(boxes, sizes, self._offsets, film.size)
        self._offsets = {key: one for key, one in (self._offsets | offsets).items() if key in boxes}
        labels = {key: label_box(boxes[key], offset, sizes[key]) for key, offset in offsets.items()}
        draw_labels(picture, [
            PlacedLabel(texts[key], box, boxes[key], track_colour(self._pieces[key].tube.track))
            for key, box in labels.items()
        ])  # fmt: skip
        self.unlabelled += len(boxes) - len(labels)
        self.mapped.append([
            self._mapped(key, position, boxes[key], labels.get(key)) for key, position in drawn
        ])

    def _mapped(self, key: int, position: int, box: Box, label: Box | None) -> MappedTarget:
        tube = self._pieces[key].tube
        frame = int(tube.frames[position])
        at = None if label is None else (int(label.x), int(label.y), int(label.w), int(label.h))
        return MappedTarget(
            tube.track, round(box.x), round(box.y), max(1, round(box.w)), max(1, round(box.h)),
            frame, round(self._film.times_ms[frame]), at,
        )  # fmt: skip


def _foot(one: _PlacedTube, position: int) -> float:
    """Who stands lower in the picture is nearer, and drawn later."""
    box = one.tube.boxes[position]
    return float(box[1] + box[3])
