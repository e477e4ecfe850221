"""What becomes of a request for a gallery of faces, beside what holds of every list."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import FaceLine, NamedChunk, base_key
from bus.domain import list_check
from bus.domain.feature_models import FeatureSettings
from bus.domain.list_chunks import face_chunk_value
from tests.alarm.decisions.list_world import BASE, OTHER_BASE, ListWorld
from tests.alarm.lists.made_galleries import feature, unit

MODEL = FeatureSettings().table()["CITY-FACE-128/1"]


def faces(count: int, first: int = 0) -> list[FaceLine]:
    return [FaceLine(0, f"P{at}", "", "", feature(unit(128, at))) for at in range(first, first + count)]


def chunks(world: ListWorld, list_id: str, count: int, base: str = BASE) -> tuple[NamedChunk, ...]:
    chunk = face_chunk_value(0, faces(count))
    world.write(base_key(list_id, base, 0), chunk.value)
    return (chunk.named,)


def gallery(world: ListWorld, count: int = 10, model: FeatureModel = MODEL, **fields: object) -> str:
    """Ask for it; the code of the refusal, or nothing."""
    asked = {"kind": "face", "model": msgspec.to_builtins(model), **fields}
    named = chunks(world, str(fields.get("list_id", "l")), count, str(fields.get("base", BASE)))
    answer = world.asked("put", chunks=named, **asked)
    assert (answer.state == "accepted") == (answer.code == "")
    return answer.code


def test_a_gallery_takes_a_threshold_of_its_own_and_keeps_its_model() -> None:
    world = ListWorld()
    assert gallery(world) == ""
    assert gallery(world, model=msgspec.structs.replace(MODEL, threshold=0.8)) == ""
    model = world.known.get("l").model
    assert model is not None
    assert (model.threshold, model.dimensions) == (0.8, 128)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": "nobody/1"}, "unknown_model"),
        ({"dimensions": 64}, "other_model"),
        ({"measure": "euclid"}, "other_model"),
        ({"threshold": 1.01}, "threshold"),
    ],
)
def test_a_gallery_of_a_model_that_this_site_does_not_know_so_is_refused(
    change: dict[str, object], code: str
) -> None:
    assert gallery(ListWorld(), model=msgspec.structs.replace(MODEL, **change)) == code


def test_a_base_that_stays_is_of_the_model_that_it_was_imported_with() -> None:
    world = ListWorld()
    other = FeatureSettings().table()["SFACE"]
    assert gallery(world) == ""
    assert gallery(world, model=other) == "other_model"
    assert gallery(world, model=other, base=OTHER_BASE) == ""


def test_a_list_keeps_its_kind_until_it_is_ended() -> None:
    world = ListWorld()
    assert gallery(world) == ""
    assert world.asked("put", chunks=world.base(10, OTHER_BASE), base=OTHER_BASE).code == "other_kind"
    assert world.asked("change").code == "other_kind", "its lines are plates"
    assert world.asked("remove").state == "accepted"
    assert world.asked("put").state == "accepted"


def test_there_is_room_for_so_many_faces_whatever_plates_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ListWorld()
    monkeypatch.setattr("alarm.decisions.list_machine.MAX_FACES", 19)
    monkeypatch.setattr("alarm.decisions.list_machine.MAX_CHANGED_FACES", 1)
    assert list_check.MAX_FACES > 19
    assert world.asked("put", list_id="l").state == "accepted"
    assert gallery(world, list_id="m", seen_version=0) == ""
    assert gallery(world, list_id="o", seen_version=0) == "too_many_faces"
    put = [msgspec.to_builtins(one) for one in faces(2, 50)]
    changed = world.asked("change", list_id="m", put_lines=(), put_faces=put[:1])
    assert changed.state == "accepted"
    assert world.asked("change", list_id="m", put_lines=(), put_faces=put[1:]).code == "too_many_changes"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (FaceLine(0, "", feature=feature(unit(128, 1))), "entry"),
        (FaceLine(0, "a\nb", feature=feature(unit(128, 1))), "entry"),
        (FaceLine(0, "P", feature=feature(unit(64, 1))), "feature"),
        (FaceLine(0, "P", feature=feature([float("nan")] * 128)), "feature"),
        (FaceLine(0, "P", "x" * 201, feature=feature(unit(128, 1))), "note_length"),
        (FaceLine(0, "P", "", "soon", feature(unit(128, 1))), "date"),
    ],
)
def test_a_face_that_cannot_be_compared_is_refused(line: FaceLine, code: str) -> None:
    world = ListWorld()
    assert gallery(world) == ""
    answer = world.asked("change", put_lines=(), put_faces=[msgspec.to_builtins(line)])
    assert (answer.code, answer.field) == (code, "put_faces")
