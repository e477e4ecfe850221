"""A synopsis shows every target with its true time: films whose targets carry their frame's number.

The whole way is real: frames are decoded, targets cut out, placed, blended, encoded as WebM, and
read again from that file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from deploy.bench.video.label_reading import frames_off, pictures_of
from ingest.senders.video.synopsis_cli import mount
from ingest.video.boxes import Box
from ingest.video.synopsis.synopsis_map import MappedTarget, SynopsisMap, decode_map, source_at
from tests.ingest.video.synopsis.coded_films import (
    FPS,
    FRAMES,
    WALK_FRAMES,
    WALKS,
    read_code,
    write_coded_film,
)  # fmt: skip

app = typer.Typer()
app.callback()(lambda: None)  # the command's name is said, as in the product
mount(app)

FADE = 9  # frames at the ends of a piece through which the street is seen


class Made:
    """A synopsis, read again."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.film, self.tracks = folder / "coded.avi", folder / "coded.txt"
        self.tracks.write_text(write_coded_film(self.film), "ascii")
        self.out = folder / "short.webm"
        self.result = CliRunner().invoke(app, [
            "synopsis", str(self.film), "--tracks", str(self.tracks), "--out", str(self.out), *words
        ])  # fmt: skip
        assert self.result.exit_code == 0, self.result.output
        self.map: SynopsisMap = decode_map(self.out.with_suffix(".json").read_bytes())
        self.pictures = pictures_of(str(self.out))

    def targets(self) -> list[tuple[int, MappedTarget]]:
        return [(n, one) for n, frame in enumerate(self.map.frames) for one in frame]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"), "--length", "6", "--speed", "1", "--order", "0")


def is_whole(made: Made, number: int, one: MappedTarget) -> bool:
    """Neither fading nor on another target."""
    first, _, _ = WALKS[one.track]
    position = one.source_frame - first
    if not FADE <= position < WALK_FRAMES - FADE:
        return False
    own = Box(one.x - 1, one.y - 1, one.w + 2, one.h + 2)
    return all(
        own.common(Box(other.x, other.y, other.w, other.h)) == 0
        for other in made.map.frames[number] if other != one
    )


def test_all_targets_are_in_a_film_of_the_length_that_was_asked_for(made: Made) -> None:
    assert len(made.pictures) == len(made.map.frames) == 6 * FPS
    for track in WALKS:
        frames = {one.source_frame for _, one in made.targets() if one.track == track}
        first, _, _ = WALKS[track]
        assert frames == set(range(first, first + WALK_FRAMES))


def test_a_target_is_seen_as_it_was_in_the_frame_that_the_map_names(made: Made) -> None:
    """Read from the pixels: the number that the target carries is the frame's, exactly."""
    compared = 0
    for number, one in made.targets():
        if is_whole(made, number, one):
            assert read_code(made.pictures[number], one.x, one.y) == one.source_frame
            compared += 1
    assert compared >= 0.6 * len(WALKS) * (WALK_FRAMES - 2 * FADE)


def test_what_is_written_beside_a_target_is_the_time_of_that_frame(made: Made) -> None:
    """Read from the pixels: of the labels of the frames around it, the right one looks most like
    what stands there."""
    compared = 0
    for number, one in made.targets():
        if one.label is None:
            continue
        assert frames_off(made.pictures[number], one, FPS) == 0
        compared += 1
    assert compared >= 0.9 * len(made.targets())


def test_no_label_lies_on_a_target(made: Made) -> None:
    for frame in made.map.frames:
        labels = [Box(*map(float, one.label)) for one in frame if one.label is not None]
        for label in labels:
            for one in frame:  # boxes of the map are rounded
                inner = Box(one.x + 1, one.y + 1, one.w - 2, one.h - 2)
                assert label.common(inner) == 0


def test_beside_targets_and_labels_the_street_is_the_films(made: Made) -> None:
    """No ghost, no halo: what differs from the first picture of the film lies at a target."""
    street = pictures_of(str(made.film))[0].astype(np.int16)
    for number in range(0, len(made.pictures), 10):
        elsewhere = np.ones(street.shape[:2], np.bool_)
        for one in made.map.frames[number]:
            box = (one.x, one.y, one.w, one.h)
            boxes = [box] if one.label is None else [box, one.label]
            left, top = min(b[0] for b in boxes) - 10, min(b[1] for b in boxes) - 10
            right = max(b[0] + b[2] for b in boxes) + 10
            bottom = max(b[1] + b[3] for b in boxes) + 10
            elsewhere[max(0, top) : bottom, max(0, left) : right] = False
        apart = np.abs(made.pictures[number].astype(np.int16) - street).max(axis=2)
        assert elsewhere.mean() > 0.3
        assert apart[elsewhere].mean() < 6
        assert (apart[elsewhere] > 40).mean() < 0.001


def test_a_click_on_a_target_leads_to_its_frame(made: Made) -> None:
    for number, one in made.targets():
        if is_whole(made, number, one):
            at = source_at(made.map, (number + 0.5) / FPS, one.x + one.w / 2, one.y + one.h / 2)
            assert at is not None
            assert (at.track, at.source_frame) == (one.track, one.source_frame)


def test_only_the_targets_that_were_asked_for_are_shown(tmp_path: Path) -> None:
    found = Made(tmp_path, "--direction", "left", "--length", "5", "--speed", "2")
    assert {one.track for _, one in found.targets()} == {3}
    frames = [one.source_frame for _, one in found.targets()]
    assert set(np.diff(frames)) <= {1, 2}, "of the walk every second frame, and its end"


def test_the_same_seed_makes_the_same_map(tmp_path: Path, made: Made) -> None:
    again = Made(tmp_path, "--length", "6", "--speed", "1", "--order", "0")
    assert again.map.frames == made.map.frames
    assert "seed 1" in again.result.output


def test_a_film_of_which_nothing_was_asked_for_says_so(tmp_path: Path) -> None:
    film, tracks = tmp_path / "coded.avi", tmp_path / "coded.txt"
    tracks.write_text(write_coded_film(film), "ascii")
    words = ["synopsis", str(film), "--tracks", str(tracks), "--class", "vehicle"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "no target of the film is what was asked for" in result.output
    assert sorted(one.name for one in tmp_path.iterdir()) == ["coded.avi", "coded.txt"]


def test_tracks_of_another_film_are_refused(tmp_path: Path) -> None:
    film, tracks = tmp_path / "coded.avi", tmp_path / "coded.txt"
    tracks.write_text(write_coded_film(film) + f"\n{FRAMES + 1},9,1,1,20,20\n", "ascii")
    result = CliRunner().invoke(app, ["synopsis", str(film), "--tracks", str(tracks)])
    assert result.exit_code == 1
    assert "another film" in result.output
