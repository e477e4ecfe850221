"""Lists of plates and galleries as the API says them: rows, lines a page at a time, and what a list
means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from alarm.lists.stored_list_reader import StoredListReader
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.plate_lists import PlateList
from bus.contracts.plate_lists import ListLine
from monitor.api.pool import ReaderPool
from monitor.api.services import ConsoleServices
from tests.alarm.lists.made_galleries import feature, made_gallery, unit
from tests.alarm.lists.made_lists import made_list

PLATES = [f"浙S{number:05}" for number in range(250)]


class MadeLists:
    """In the place of the topic's reader."""

    def __init__(self, found: PlateList, galleries: Mapping[str, FaceGallery]) -> None:
        self._found = found
        self.galleries = galleries
        self.problems = {"stolen": "the newest chunk is damaged"}

    def catch_up(self) -> dict[str, PlateList]:
        return {self._found.list_id: self._found}

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _stolen(services: ConsoleServices, tmp_path: Path) -> None:
    added = {"浙T00001": ListLine(7, "浙T00001"), "浙S00009": ListLine(8, "浙S00009", "by hand")}
    found = made_list(
        tmp_path, "stolen", PLATES, tolerance="look-alikes", added=added, removed=PLATES[:2], renewal_days=1
    )

    faces = {f"P{at}": feature(unit(8, at)) for at in range(5)}
    gallery = made_gallery(tmp_path, "wanted", faces, removed=["P1"])

    def open_reader() -> StoredListReader:
        reader = object.__new__(StoredListReader)
        reader._reader = MadeLists(found, {"wanted": gallery})  # type: ignore[assignment]
        return reader

    object.__setattr__(services, "lists", ReaderPool("lists", open_reader, threads=1))


async def test_a_list_says_how_many_lines_are_in_force_and_what_is_wrong_with_it(as_role: Any) -> None:
    row, gallery = (await as_role().get("/api/lists")).json()["rows"]
    assert (row["list_id"], row["lines"], row["tolerance"]) == ("stolen", 249, "look-alikes")
    assert (row["is_overdue"], row["problem"]) == (True, "the newest chunk is damaged")
    assert (gallery["list_id"], gallery["kind"], gallery["lines"]) == ("wanted", "face", 4)
    assert (gallery["model"]["name"], row["model"]) == ("eight/1", None)


async def test_faces_of_a_gallery_are_shown_without_their_features_and_found_by_entry(as_role: Any) -> None:
    client = as_role()
    rows = (await client.get("/api/lists/wanted/lines")).json()["rows"]
    assert [row["entry"] for row in rows] == ["P0", "P2", "P3", "P4"]
    assert rows[0].keys() == {"line", "note", "date", "plate", "entry"}
    for entry, expected in (("P3", ["P3"]), ("P1", []), ("P", [])):
        found = (await client.get("/api/lists/wanted/lines", params={"plate": entry})).json()["rows"]
        assert [row["entry"] for row in found] == expected


async def test_lines_come_page_by_page_each_once_and_none_that_was_removed(as_role: Any) -> None:
    client, cursor, found = as_role(), "", []
    for _ in range(9):
        page = (await client.get("/api/lists/stolen/lines", params={"cursor": cursor, "limit": 60})).json()
        found += [(row["plate"], row["note"]) for row in page["rows"]]
        if not (cursor := page["cursor"]):
            break
    assert cursor == ""
    assert len(found) == 249
    assert dict(found).keys() == {*PLATES[2:], "浙T00001"}
    assert dict(found)["浙S00009"] == "by hand"


@pytest.mark.parametrize(
    ("plate", "expected"),
    [("浙 s·0D007", ["浙S00007"]), ("浙S00001", []), ("浙S0?007", []), ("浙T0OO01", ["浙T00001"])],
)
async def test_a_plate_is_asked_for_as_a_reading_is(as_role: Any, plate: str, expected: list[str]) -> None:
    rows = (await as_role().get("/api/lists/stolen/lines", params={"plate": plate})).json()["rows"]
    assert [row["plate"] for row in rows] == expected


async def test_what_is_not_there_or_not_allowed_is_refused(as_role: Any) -> None:
    client = as_role()
    assert (await client.get("/api/lists/other/lines")).status_code == 404
    for cursor in ("x", "-1", "1" * 10):
        reply = await client.get("/api/lists/stolen/lines", params={"cursor": cursor})
        assert reply.status_code == 422
