"""Stored faces that resemble one, by the API: of a record, or of a gallery's entry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted_faces import DIMENSIONS, MODEL, PEOPLE, UNKNOWN, face_id, person, plant_faces

from alarm import face_search
from bus.domain.feature_models import FeatureSettings
from monitor.accounts.roles import AccountRole
from monitor.api.app import create_api
from monitor.api.pool import ReaderPool
from monitor.api.services import ConsoleServices

FACES = 40
MINUTE_MS = 60_000


class OneGallery:
    """A gallery `wanted` with the entry `P1`; the reader of the bus has a test of its own."""

    def face(self, list_id: str, entry: str) -> tuple[bytes, object] | None:
        model = FeatureSettings().table()[MODEL.upper()]
        return (person(1), model) if (list_id, entry) == ("wanted", "P1") else None

    def close(self) -> None: ...


@pytest.fixture
def services(services: ConsoleServices, data_path: Path, filled: tuple[Path, int]) -> ConsoleServices:
    """Four people passed, ten times each, one of them every minute."""
    plant_faces(data_path, filled[1], FACES)
    return replace(services, lists=ReaderPool("lists", OneGallery, threads=1))


def ids(reply: Any) -> list[str]:
    assert reply.status_code == 200, reply.text
    return [row["record_id"] for row in reply.json()["rows"]]


async def test_a_record_finds_the_other_faces_of_its_person_best_first(as_role: Any) -> None:
    reply = await as_role().get(f"/api/faces?record={face_id(1)}")
    others = {face_id(number) for number in range(1, FACES, PEOPLE)} - {face_id(1)}
    assert set(ids(reply)) == others
    found = reply.json()
    scores = [row["score"] for row in found["rows"]]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0.8
    assert (found["hits"], found["compared"], found["is_complete"], found["cursor"]) == (9, FACES - 1, True, "")
    assert found["read"] > FACES, "the city has other faces, and they have no feature"
    assert found["model"] == {"name": MODEL, "dimensions": DIMENSIONS, "measure": "cosine", "threshold": 0.6}
    assert {"captured_at", "checkpoint", "picture"} <= set(found["rows"][0])


async def test_an_entry_of_a_gallery_finds_its_person(as_role: Any) -> None:
    found = ids(await as_role().get("/api/faces?list=wanted&entry=P1"))
    assert set(found) == {face_id(number) for number in range(1, FACES, PEOPLE)}


async def test_a_time_a_threshold_and_a_limit_hold(as_role: Any, filled: tuple[Path, int]) -> None:
    client, now_ms = as_role(), filled[1]
    asked = f"/api/faces?record={face_id(1)}"
    span = f"&from={now_ms - 21 * MINUTE_MS}&until={now_ms - 5 * MINUTE_MS}"
    assert set(ids(await client.get(asked + span))) == {face_id(number) for number in (9, 13, 17, 21)}
    assert ids(await client.get(f"{asked}&threshold=0.9999")) == []
    two = await client.get(f"{asked}&limit=2&threshold=-1")
    assert (len(ids(two)), two.json()["hits"]) == (2, FACES - 1)


async def test_a_search_that_looks_at_some_records_says_so_and_goes_on_from_there(
    as_role: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(face_search, "PIECE_ROWS", 7)
    client, cursor, found, turns = as_role(), "", set(), 0
    while True:
        reply = await client.get(f"/api/faces?record={face_id(1)}&most=14&cursor={cursor}")
        found |= set(ids(reply))
        said, turns = reply.json(), turns + 1
        assert said["read"] <= 14
        assert said["is_complete"] == (not said["cursor"])
        if said["is_complete"]:
            break
        assert said["searched_from_ms"] > 0
        cursor = said["cursor"]
    assert (turns > 2, len(found)) == (True, 9)


WRONG = (
    ("", 422, "no_face"), ("record=x&list=wanted&entry=P1", 422, "no_face"), ("list=wanted", 422, "no_face"),
    (f"record={UNKNOWN}", 422, "unknown_model"), ("record=r-000001", 422, "no_feature"),
    (f"record={face_id(1)}&threshold=2", 422, "threshold"), (f"record={face_id(1)}&cursor=x", 422, None),
    ("record=none", 404, None), ("list=wanted&entry=P2", 404, None), ("list=none&entry=P1", 404, None),
    (f"record={face_id(1)}&from=soon", 422, None), (f"record={face_id(1)}&most=0", 422, None),
)  # fmt: skip


async def test_what_cannot_be_meant_is_answered_with_what_is_wrong(as_role: Any) -> None:
    client = as_role()
    for query, status, code in WRONG:
        reply = await client.get(f"/api/faces?{query}")
        assert (reply.status_code, reply.json().get("code")) == (status, code), f"{query}: {reply.text}"


async def test_records_are_everybodys_and_so_are_their_faces(as_role: Any) -> None:
    for role in AccountRole:
        assert ids(await as_role(role).get(f"/api/faces?record={face_id(1)}")), role


async def test_the_api_describes_it(services: ConsoleServices) -> None:
    described = create_api(services).openapi()["paths"]["/api/faces"]["get"]
    assert {one["name"] for one in described["parameters"]} == {
        "record", "list", "entry", "from", "until", "threshold", "limit", "most", "cursor",
    }  # fmt: skip
