"""`film add` on a real file and a real broker, and `film list` of what ingest stores."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bus.contracts.topics import DATA_VIDEO_SEGMENT
from bus.contracts.video_segments import VideoSegment
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import RunningBroker, start_broker
from deploy.topics import make_topics
from ingest.films.film_file import FilmFile, NotAFilm, nal_units
from ingest.store.open import open_store
from ingest.store.port import Position, StoreBatch
from tests.ingest.films.rtsp_servers import make_film
from tests.ingest.films.test_recorder import SegmentConsumer, frames_of

pytestmark = pytest.mark.slow
CAMERA = "10.0.4.1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("broker"))
    make_topics(BusSettings(bootstrap_servers=running.bootstrap))
    yield running
    running.stop()


def databus(folder: Path, broker: RunningBroker, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy", "--data-dir", str(folder),
         "--set", f"bus.bootstrap_servers={broker.bootstrap}", "--set", "film.segment_s=2",
         "--set", "site.zone=Asia/Shanghai", "film", *words],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def segments_in(text: str) -> list[VideoSegment]:
    return [msgspec.json.decode(line, type=VideoSegment) for line in text.splitlines()]


def test_a_devices_own_film_is_cut_kept_announced_and_listed_and_adding_it_again_changes_nothing(
    tmp_path: Path, broker: RunningBroker
) -> None:
    film = make_film(tmp_path / "film.mp4", seconds=10, gop=25)
    words = ("add", str(film), "--camera", CAMERA, "--start", "2026-11-30T22:00:00", "--clock-offset", "3.5",
             "--json")  # fmt: skip
    done = databus(tmp_path, broker, *words)
    assert done.returncode == 0, done.stderr
    added = segments_in(done.stdout)
    assert len(added) >= 4
    true_start_ms = 1_796_047_200_000 - 3_500
    assert (added[0].start_ms, added[0].timed_by, added[0].clock_offset_ms) == (true_start_ms, "device", 3_500)
    assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(added))
    assert sum(one.frames for one in added) == 250
    assert [frames_of(tmp_path / "films" / one.name) for one in added] == [one.frames for one in added]
    assert databus(tmp_path, broker, *words).stdout == done.stdout
    consumer = SegmentConsumer(broker.bootstrap, CAMERA)
    told = consumer.until(lambda seen: len(seen) >= len(added))
    consumer.close()
    assert told == added
    store = open_store(f"sqlite://{tmp_path}/store/records.db", "write")
    position = Position(application="ingest", cluster_id="", topic=DATA_VIDEO_SEGMENT, topic_id="",
                        partition=0, end_offset=9)  # fmt: skip
    store.apply(StoreBatch(segments=told), [position])
    store.close()
    span = ("--from", "2026-11-30T21:59:58", "--until", "2026-11-30T22:00:01", "--json")
    listed = segments_in(databus(tmp_path, broker, "list", CAMERA, *span).stdout)
    assert listed == [one for one in added if one.end_ms > true_start_ms + 1_500 and
                      one.start_ms < true_start_ms + 4_500]  # fmt: skip
    assert listed
    assert CAMERA in databus(tmp_path, broker, "list", CAMERA).stdout


@pytest.mark.parametrize("content", [b"", b"no film at all", b"\x00\x00\x00\x18ftypmp42" + bytes(100)])
def test_what_is_no_film_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(content)
    with pytest.raises(NotAFilm):
        FilmFile(path)
    with pytest.raises(NotAFilm, match="there is no file"):
        FilmFile(tmp_path / "none.mp4")


def test_a_film_that_ends_in_the_middle_or_is_damaged_gives_what_can_be_read(tmp_path: Path) -> None:
    data = make_film(tmp_path / "film.mkv", seconds=4, gop=25, mux="matroskamux").read_bytes()
    middle = len(data) // 2
    for number, damaged in enumerate((data[:middle], data[:middle] + bytes(50) + data[middle + 50 :])):
        path = tmp_path / f"damaged{number}.mkv"
        path.write_bytes(damaged)
        units = list(FilmFile(path).units(1_000))
        assert 10 <= len(units) <= 100
        assert all(unit.received_ms >= 1_000 and unit.nals for unit in units)


def test_a_film_from_outside_the_roots_or_in_another_codec_is_refused_with_status_1(
    tmp_path: Path, broker: RunningBroker
) -> None:
    film = make_film(tmp_path / "film.mp4", seconds=1, gop=25)
    words = ("add", str(film), "--camera", CAMERA, "--start", "2026-11-30T22:00:00")
    outside = subprocess.run(
        [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path), "--set",
         f"film.roots={tmp_path}/only", "--set", f"bus.bootstrap_servers={broker.bootstrap}", "film", *words],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (outside.returncode, "roots" in outside.stderr) == (1, True)
    other = make_film(tmp_path / "film.avi", seconds=1, gop=25, encoder="jpegenc ! avimux")
    words = ("add", str(other), "--camera", CAMERA, "--start", "2026-11-30T22:00:00")
    done = databus(tmp_path, broker, *words)
    assert (done.returncode, "H.264 and H.265 only" in done.stderr) == (1, True), done.stderr
    assert not list((tmp_path / "films").rglob("*.mp4"))


def test_nal_units_stand_between_start_codes_of_three_or_four_bytes() -> None:
    assert nal_units(b"\x00\x00\x00\x01\x67ab\x00\x00\x01\x68c\x00\x00\x00\x01\x65d") == [
        b"\x67ab", b"\x68c", b"\x65d",
    ]  # fmt: skip
    assert nal_units(b"") == nal_units(b"abc") == []
