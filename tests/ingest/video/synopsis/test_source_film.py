"""What is no film ends with what is wrong with it; nothing is left behind under the result's name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cv2
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ingest.senders.video.synopsis_cli import mount
from ingest.video.synopsis.source_film import SourceFilm
from ingest.video.synopsis.webm_file import WebmFile
from ingest.video.video_reader import NotAVideo
from tests.ingest.video.synopsis.coded_films import FRAMES, HEIGHT, WIDTH, write_coded_film

app = typer.Typer()
app.callback()(lambda: None)
mount(app)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """A film's bytes, and its tracks."""
    path = tmp_path_factory.mktemp("coded") / "coded.avi"
    rows = write_coded_film(path)
    return path.read_bytes(), rows


def of_size(data: bytes, width: int, height: int) -> bytes:
    """With that size in the header of every picture (a JPEG's start of frame)."""
    start = b"\xff\xc0\x00\x11\x08"
    was, now = struct.pack(">HH", HEIGHT, WIDTH), struct.pack(">HH", height, width)
    assert data.count(start + was) == FRAMES
    return data.replace(start + was, start + now)


BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "text": (lambda data: b"no film at all\n" * 100, "not a film"),
    "empty": (lambda data: b"", "not a film"),
    "truncated": (lambda data: data[: len(data) * 6 // 10], "truncated"),
    "only a header": (lambda data: data[:4096], "not a film|no frame"),
    "16k x 16k": (lambda data: of_size(data, 16384, 16384), "16384 x 16384|no frame|not a film"),
    "0 x 0": (lambda data: of_size(data, 0, 0), "0 x 0|no frame|not a film"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_film_ends_with_its_reason(
    name: str, coded: tuple[bytes, str], tmp_path: Path
) -> None:
    spoil, reason = BAD[name]
    film, tracks = tmp_path / "bad.avi", tmp_path / "tracks.txt"
    film.write_bytes(spoil(coded[0]))
    tracks.write_text(coded[1], "ascii")
    result = CliRunner().invoke(app, ["synopsis", str(film), "--tracks", str(tracks)])
    assert result.exit_code == 1, result.output
    assert "databus: " in result.output
    with pytest.raises(NotAVideo, match=reason):
        list(SourceFilm(film, 640).frames())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bad.avi", "tracks.txt"]


def test_a_film_without_frames_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.avi"
    cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 64)).release()
    with pytest.raises(NotAVideo):
        list(SourceFilm(path, 640).frames())


def test_a_film_whose_time_jumps_back_is_refused(tmp_path: Path, coded: tuple[bytes, str]) -> None:
    """The time of a block of a real WebM is set back by two seconds."""
    source, path = tmp_path / "coded.avi", tmp_path / "back.webm"
    source.write_bytes(coded[0])
    with WebmFile(path, 25, (WIDTH, HEIGHT)) as webm:
        for frame in SourceFilm(source, 640).frames():
            webm.write(frame.image)
    data = bytearray(path.read_bytes())
    assert len(list(SourceFilm(path, 640).frames())) == FRAMES
    at = data.rindex(b"\x81" + struct.pack(">h", 400))  # a block of track 1, in the last cluster
    struct.pack_into(">h", data, at + 1, -2000)
    path.write_bytes(data)
    with pytest.raises(NotAVideo, match="jumps back at frame"):
        list(SourceFilm(path, 640).frames())


def test_times_are_those_of_the_container(tmp_path: Path, coded: tuple[bytes, str]) -> None:
    path = tmp_path / "coded.avi"
    path.write_bytes(coded[0])
    film = SourceFilm(path, 200)
    frames = list(film.frames())
    assert [round(one.at_ms) for one in frames] == [40 * n for n in range(FRAMES)]
    assert frames[0].image.shape == (150, 200, 3)
    assert film.frame_count == len(film.times_ms) == FRAMES


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_a_film_with_changed_bytes_is_read_or_refused(
    data: st.DataObject, tmp_path: Path, coded: tuple[bytes, str]
) -> None:
    spoiled = bytearray(coded[0][:200_000])
    for _ in range(data.draw(st.integers(1, 20))):
        spoiled[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
    path = tmp_path / "spoiled.avi"
    path.write_bytes(spoiled)
    try:
        film = SourceFilm(path, 320)
        times = [frame.at_ms for frame, _ in zip(film.frames(), range(40), strict=False)]
    except NotAVideo:
        return
    assert times == sorted(times)
