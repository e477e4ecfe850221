"""A film becomes records; the same film becomes the same records."""

from __future__ import annotations

from pathlib import Path

import cv2
import msgspec
import numpy as np
import pytest

from bus.domain.times import local_time
from ingest.normalise import Envelope, normalise
from ingest.store.port import RecordRow
from ingest.video.recognise import recognise
from ingest.video.reports import Report, VideoSource
from ingest.video.settings import VideoSettings
from ingest.video.video_reader import NotAVideo, VideoReader, video_identity

ZONE = "Asia/Shanghai"
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def film_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six seconds of a still street on which a dark thing drives from left to right."""
    path = tmp_path_factory.mktemp("film") / "street.avi"
    street = np.random.default_rng(1).integers(90, 140, (120, 160, 3), dtype=np.uint8)
    street = cv2.GaussianBlur(street, (9, 9), 0)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (160, 120))
    for number in range(60):
        frame = street.copy()
        if number >= 20:
            x = 3 * (number - 20)
            cv2.rectangle(frame, (x, 60), (x + 36, 84), (20, 20, 200), -1)
        writer.write(frame)
    writer.release()
    return path


def reports_of(path: Path) -> list[Report]:
    film = VideoReader(path)
    place = VideoSource("330191#1#1#0", "10.0.0.9", "127.0.0.1", film.identity, START_MS, "file:///x")
    try:
        return list(recognise(film, place, VideoSettings(), local_time(ZONE)))
    finally:
        film.close()


def test_what_drives_by_is_reported_once_with_place_time_and_pictures(film_path: Path) -> None:
    [report] = reports_of(film_path)
    row = normalise(
        msgspec.json.encode(report.message),
        report.kind,
        Envelope(received_at_ms=0, record_id=report.record_id),
        None,
        ZONE,
    )
    assert isinstance(row, RecordRow)
    assert (row.kind, row.camera_ip, row.checkpoint_id) == ("mover", "10.0.0.9", "330191#1#1#0")
    assert START_MS + 2_000 <= row.captured_at_ms == report.captured_at_ms <= START_MS + 6_000
    assert report.message["目标类别"] == "unknown"
    times = [report.message[key] for key in ("出现时间", "抓拍时间", "消失时间")]
    assert times == sorted(times)
    for _, jpeg in report.pictures.values():
        assert cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR) is not None


def test_looking_again_gives_the_same_ids_and_the_same_picture_names(film_path: Path) -> None:
    first, second = reports_of(film_path), reports_of(film_path)
    assert [(r.record_id, r.message) for r in first] == [(r.record_id, r.message) for r in second]
    assert [r.pictures for r in first] == [r.pictures for r in second]


def test_a_film_is_known_by_its_content_and_not_by_its_name(film_path: Path) -> None:
    other = film_path.with_name("copy.avi")
    other.write_bytes(film_path.read_bytes())
    assert video_identity(other) == video_identity(film_path)
    other.write_bytes(film_path.read_bytes()[:-1] + b"x")
    assert video_identity(other) != video_identity(film_path)


def test_what_is_no_film_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "no.avi"
    path.write_bytes(b"this is no film at all" * 100)
    with pytest.raises(NotAVideo):
        VideoReader(path)
