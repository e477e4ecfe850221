"""Pictures: durable, served only from inside the store, and never in a record's way (I-7)."""

from __future__ import annotations

import asyncio
import random
import stat
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from bus.contracts.pictures import is_safe_name
from ingest.pictures.names import content_type, extension, picture_name, safe
from ingest.pictures.retention import PictureRetention
from ingest.pictures.store import PictureStore
from ingest.pictures.writer import PictureWriter

JPEG = b"\xff\xd8\xff\xe0 a picture"


def test_names_are_safe_and_the_same_for_every_retry():
    """With any checkpoint id."""
    name = picture_name("20261010", "110110#1#0#0/../x", "own-12", "vehicle", JPEG)
    assert name == "20261010/110110_1_0_0_x/own-12-vehicle.jpg"
    assert is_safe_name(name)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".hidden", "a/.b", "a\\b", "a%2fb", "a/b\n", "a\0", "x" * 300,
             "/".join("a" * 9)],
)  # fmt: skip
def test_names_from_outside_do_not_leave_the_store(name: str, tmp_path: Path):
    """No traversal, no hidden files, no surprises."""
    assert not is_safe_name(name)
    assert PictureStore(tmp_path.as_uri(), "http://x").get(name) is None


def test_any_text_becomes_a_safe_segment(dice: random.Random):
    """With any characters of a device."""
    for _ in range(300):
        text = "".join(chr(dice.randrange(1, 0x2FFF)) for _ in range(dice.randrange(200)))
        assert is_safe_name(safe(text))


def test_a_picture_is_what_its_bytes_are():
    """The sender's file name is ignored; unknown content is only bytes."""
    assert extension(JPEG) == "jpg"
    assert extension(b"\x89PNG\r\n\x1a\n...") == "png"
    assert extension(b"RIFF1234WEBPVP8 ") == "webp"
    assert extension(b"<html>") == "bin"
    assert content_type("a/b.bin") == content_type("x.html") == "application/octet-stream"


def test_the_store_gives_back_what_it_took(tmp_path: Path):
    """Bytes, address, path."""
    store = PictureStore(tmp_path.as_uri(), "http://edge:1/")
    store.put("20261010/c/r-vehicle.jpg", JPEG)
    url = store.url("20261010/c/r-vehicle.jpg")
    assert url == "http://edge:1/pictures/20261010/c/r-vehicle.jpg"
    assert store.get("20261010/c/r-vehicle.jpg") == JPEG
    assert Path(store.path_of(url)).read_bytes() == JPEG
    assert store.get("20261010/c") is None
    assert store.path_of("http://elsewhere/x.jpg") == ""
    assert [p.name for p in (tmp_path / "20261010/c").iterdir()] == ["r-vehicle.jpg"]


def keeper(store: PictureStore, folder: Path, **changes: int) -> PictureWriter:
    bounds = {"write_timeout_ms": 2000, "waiting_max_bytes": 1 << 20, **changes}
    return PictureWriter(store, folder, **bounds)


def broken_store(tmp_path: Path) -> tuple[PictureStore, Path]:
    """A folder store whose place is taken by a file, as after a lost mount."""
    place = tmp_path / "store"
    place.write_text("not a folder")
    return PictureStore(place.as_uri(), "http://x"), place


async def test_an_unreachable_store_holds_nothing_up_and_gets_the_picture_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The picture waits on the local disk, is served from there, and is carried over."""
    monkeypatch.setattr("ingest.pictures.writer._PAUSE_S", 0.05)
    store, place = broken_store(tmp_path)
    stored = keeper(store, tmp_path / "waiting")
    assert await stored.write("d/c/r.jpg", JPEG)
    assert await stored.read("d/c/r.jpg") == JPEG
    assert stored.waiting_bytes == len(JPEG)
    place.unlink()
    deadline = time.monotonic() + 60
    while stored.waiting_bytes and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert (place / "d/c/r.jpg").read_bytes() == JPEG
    assert await stored.read("d/c/r.jpg") == JPEG
    assert list((tmp_path / "waiting").rglob("*.jpg")) == []
    stored.close()


async def test_what_waits_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The next process carries it over."""
    monkeypatch.setattr("ingest.pictures.writer._PAUSE_S", 0.05)
    store, place = broken_store(tmp_path)
    first = keeper(store, tmp_path / "waiting")
    await first.write("d/c/r.jpg", JPEG)
    first.close()
    place.unlink()
    second = keeper(store, tmp_path / "waiting")
    deadline = time.monotonic() + 60
    while second.waiting_bytes and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert store.get("d/c/r.jpg") == JPEG
    second.close()


async def test_past_the_bound_a_picture_is_lost_and_counted(tmp_path: Path):
    """The record is still forwarded; the loss is counted."""
    store, _ = broken_store(tmp_path)
    stored = keeper(store, tmp_path / "waiting", waiting_max_bytes=20)
    assert await stored.write("d/1.jpg", JPEG)
    assert not await stored.write("d/2.jpg", JPEG)
    assert (stored.stored, stored.lost) == (1, 1)
    assert await stored.read("d/2.jpg") is None
    stored.close()


async def test_a_slow_store_does_not_hold_up_the_record(tmp_path: Path):
    """Past the time-out the picture waits locally, and the next ones do so at once."""

    class Slow(PictureStore):
        def put(self, name: str, data: bytes) -> None:
            time.sleep(0.5)
            super().put(name, data)

    stored = keeper(Slow((tmp_path / "s").as_uri(), ""), tmp_path / "waiting", write_timeout_ms=50)
    started = time.monotonic()
    for number in range(5):
        assert await stored.write(f"d/{number}.jpg", JPEG)
    assert time.monotonic() - started < 0.5
    assert stored.waiting_bytes == 5 * len(JPEG)
    stored.close()


def test_a_picture_file_is_whole_or_absent(tmp_path: Path):
    """Nothing half-written is left under any name when the disk refuses."""
    store = PictureStore(tmp_path.as_uri(), "")
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError, match="name too long"):
        store.put("d/" + "x" * 300 + ".jpg", JPEG)
    assert list((tmp_path / "d").iterdir()) == []
    store.put("d/a.jpg", JPEG)
    assert stat.S_IMODE((tmp_path / "d/a.jpg").stat().st_mode) & 0o111 == 0


def test_pictures_leave_after_their_days_whole_days_at_a_time(tmp_path: Path):
    """In slices; the copies of alarms and what is no day of ours stay, and empty folders go."""
    store, now_ms = PictureStore(tmp_path.as_uri(), ""), 1_800_000_000_000  # 15 January 2027
    for name in ("20270101/c/1.jpg", "20270101/put/x/2.jpg", "20270104/c/3.jpg", "20270105/c/4.jpg",
                 "alarms/20270101/a/0.jpg", "mine/20270101/5.jpg"):  # fmt: skip
        store.put(name, JPEG)
    keeper = PictureRetention(store, 10, ZoneInfo("Asia/Shanghai"))
    assert [store.forget("20270105", 2) for _ in range(3)] == [2, 1, 0]
    assert keeper.forget(now_ms) == 0, "the day the tenth day before began is kept whole"
    left = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jpg"))
    assert left == ["20270105/c/4.jpg", "alarms/20270101/a/0.jpg", "mine/20270101/5.jpg"]
    assert not (tmp_path / "20270101").exists()
    assert keeper.forget(now_ms + 86_400_000) == 1


def test_the_edge_deletes_old_pictures_by_itself(tmp_path: Path):
    """A thread of its own; one without days has none."""
    store = PictureStore(tmp_path.as_uri(), "")
    store.put("20200101/c/1.jpg", JPEG)
    forever = PictureRetention(store, 0, ZoneInfo("UTC"))
    forever.start()
    forever.close()
    assert store.get("20200101/c/1.jpg") == JPEG
    keeper = PictureRetention(store, 30, ZoneInfo("UTC"))
    keeper.start()
    deadline = time.monotonic() + 60
    while store.get("20200101/c/1.jpg") is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.get("20200101/c/1.jpg") is None
    keeper.close()
