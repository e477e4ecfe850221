"""Which segments go, and what a kill between two steps leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.contracts.topics import DAY_MS
from bus.contracts.video_segments import VideoSegment
from ingest.films.catalogue import CLOSING, DELETED, DELETING, STORED, FilmCatalogue
from ingest.films.deletion import delete_due
from ingest.films.names import camera_folder
from ingest.films.retention import (
    MAX_DELETED,
    DiskSpace,
    KeptSegment,
    bytes_to_free,
    due_segments,
)
from ingest.films.segment_writer import DiskFailed, SegmentWriter, continue_after_kill, keep_closed
from ingest.films.segmenter import SegmentBegun, SegmentData, SegmentEnded
from ingest.films.settings import FilmSettings
from ingest.films.store import FilmStore

NOW = 1_700_000_000_000


def no_days(camera_ip: str) -> int:
    return 0


@given(st.lists(st.integers(1, 100), max_size=30), st.integers(0, 1_000))
def test_the_oldest_go_until_there_is_room_and_no_more(sizes: list[int], missing: int) -> None:
    kept = [KeptSegment(str(n), "c", NOW + n, size) for n, size in enumerate(sizes)]
    due = [one for one, _ in due_segments(kept, no_days, NOW, missing)]
    assert due == kept[: len(due)]
    freed = sum(one.size_bytes for one in due)
    assert freed >= min(missing, sum(sizes))
    assert not due or freed - due[-1].size_bytes < missing


def test_each_camera_has_its_own_age_and_at_most_a_slice_goes_at_once() -> None:
    kept = [KeptSegment(str(n), f"c{n % 2}", NOW - 3 * DAY_MS, 1) for n in range(3 * MAX_DELETED)]
    days: Callable[[str], int] = {"c0": 2, "c1": 4}.__getitem__
    due = due_segments(kept, days, NOW, 0)
    assert len(due) == MAX_DELETED
    assert {(one.camera_ip, reason) for one, reason in due} == {("c0", "age")}


def test_room_is_missing_above_the_bound_or_below_the_free_space() -> None:
    assert bytes_to_free(DiskSpace(100, 50), 0, 50) <= 0
    assert bytes_to_free(DiskSpace(100, 50), 90, 0) == 10
    assert bytes_to_free(DiskSpace(100, 50), 90, 80) == 30
    assert bytes_to_free(DiskSpace(100, None), 0, 80) <= 0


class Films:
    """A store and a catalogue in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "films"
        self.store = FilmStore(self.folder.as_uri(), folder)
        self.catalogue = FilmCatalogue(folder / "recorder" / "catalogue.db")

    def segment(self, number: int, camera: str = "10.0.0.1") -> VideoSegment:
        start_ms = NOW + 10_000 * number
        name = f"{camera_folder(camera)}/20231114/{start_ms}-x.mp4"
        return VideoSegment(segment_id=f"{camera}-{start_ms}", camera_ip=camera, state="stored",
                            start_ms=start_ms, end_ms=start_ms + 10_000, name=name,
                            size_bytes=100)  # fmt: skip

    def closed(self, segment: VideoSegment) -> Path:
        path = self.store.closed_path(segment.segment_id)
        path.write_bytes(bytes(100))
        return path

    def keep(self, number: int) -> VideoSegment:
        segment = self.segment(number)
        return keep_closed(self.store, self.catalogue, segment, self.closed(segment))

    def names(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.mp4")}


@pytest.fixture
def films(tmp_path: Path) -> Films:
    return Films(tmp_path)


def test_what_is_deleted_is_gone_and_told_with_its_reason(films: Films) -> None:
    kept = [films.keep(n) for n in range(5)]
    films.catalogue.announced(films.catalogue.to_announce(100))
    settings = FilmSettings(max_bytes=250, min_free_bytes=0)
    assert delete_due(films.store, films.catalogue, settings) == 3
    assert films.names() == {one.name for one in kept[3:]}
    told = films.catalogue.to_announce(100)
    assert [(row.segment.segment_id, row.segment.state, row.segment.reason) for row in told] == [
        (one.segment_id, "deleted", "space") for one in kept[:3]
    ]
    assert delete_due(films.store, films.catalogue, settings) == 0


def test_a_deletion_that_was_cut_off_is_continued(films: Films) -> None:
    segment = films.keep(0)
    gone = replace(segment, state="deleted", reason="age")
    films.catalogue.advance(gone, DELETING)
    assert films.catalogue.to_announce(9) == []
    delete_due(films.store, films.catalogue, FilmSettings(min_free_bytes=0))
    assert films.names() == set()
    assert [row.step for row in films.catalogue.to_announce(9)] == [DELETED]


def test_each_step_at_which_a_recorder_can_be_killed_ends_in_a_whole_segment_or_none(
    films: Films,
) -> None:
    known, named, lost, unknown = (films.segment(n) for n in range(4))
    films.closed(known)
    films.catalogue.put(known, CLOSING)
    films.catalogue.put(named, CLOSING)
    films.store.publish(films.closed(named), named.name)
    films.catalogue.put(lost, CLOSING)
    films.closed(unknown)
    films.store.open_path("10.0.0.1").write_bytes(b"half")
    assert continue_after_kill(films.store, films.catalogue) == 1
    assert films.names() == {known.name, named.name}
    assert films.catalogue.at_step(STORED) == [known, named]
    assert films.catalogue.at_step(CLOSING) == []
    assert list((films.folder / "open").iterdir()) == []


def test_what_is_said_twice_while_the_bus_confirms_is_said_again(films: Films) -> None:
    segment = films.keep(0)
    sent = films.catalogue.to_announce(9)
    films.catalogue.advance(replace(segment, state="deleted", reason="age"), DELETED)
    films.catalogue.announced(sent)
    assert [row.step for row in films.catalogue.to_announce(9)] == [DELETED]


def test_after_a_failed_disk_nothing_of_that_segment_is_kept_and_the_next_one_is(
    films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(films.store, films.catalogue, "10.0.0.1")
    first, second = films.segment(0), films.segment(1)
    writer.write([SegmentBegun(first.start_ms, b"a")])

    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("ingest.films.store.VideoSegmentFile.write", lambda self, data: full(data))
        with pytest.raises(DiskFailed):
            writer.write([SegmentData(b"b")])
    assert writer.write([SegmentData(b"c"), SegmentEnded(first)]) == []
    assert writer.reason == "disk-failed"
    kept = writer.write([SegmentBegun(second.start_ms, b"d"), SegmentEnded(second)])
    assert [one.segment_id for one in kept] == [second.segment_id]
    assert films.names() == {kept[0].name}


def test_what_is_forgotten_was_told_and_is_not_where_a_cameras_film_ends(films: Films) -> None:
    for number in range(3):
        segment = films.keep(number)
        films.catalogue.advance(replace(segment, state="deleted", reason="age"), DELETED)
    assert films.catalogue.forget(NOW + DAY_MS) == 0
    films.catalogue.announced(films.catalogue.to_announce(9))
    assert films.catalogue.forget(NOW + DAY_MS) == 2
    assert films.catalogue.last_end_ms("10.0.0.1") == films.segment(2).end_ms


@given(st.text(max_size=100))
def test_any_address_is_one_safe_folder_and_no_two_share_one(address: str) -> None:
    folder = camera_folder(address)
    assert folder not in ("", ".", "..", "open")
    assert not {"/", "\\", "\0"} & set(folder)
    assert camera_folder(address + "/") != folder
    assert camera_folder("10.0.0.1") == "10.0.0.1"
