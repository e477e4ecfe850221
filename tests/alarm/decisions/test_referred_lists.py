"""Rules that ask for lists: these have to be in force, and of the kind that the rule takes them for."""

from __future__ import annotations

import msgspec
import pytest

from alarm.decisions.rule_machine import RuleMachine
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import ListRecord
from bus.domain.expressions.parse import parse
from bus.domain.policy import NO_POLICY, PolicySettings
from tests.alarm.decisions.proposal_world import ProposalWorld

MODEL = FeatureModel(name="m", dimensions=4, measure="cosine", threshold=0.5)
STOLEN = ListRecord(list_id="stolen", op="put", version=1)
WANTED = ListRecord(list_id="wanted", op="put", version=1, kind="face", model=MODEL)


def world_with(*records: ListRecord, policy: PolicySettings = NO_POLICY) -> ProposalWorld:
    world = ProposalWorld(policy)
    world.machine = RuleMachine(policy, lambda: {one.list_id: one for one in records})
    return world


def put(text: str, kind: str = "vehicle") -> dict[str, object]:
    return {"where": msgspec.to_builtins(parse(text, kind)), "kind": kind, "match": {}}


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("plate_number on stolen and speed_kmh > 80", "vehicle", ""),
        ("face_feature on wanted", "face", ""),
        ("face_feature on wanted threshold 0.9", "face", ""),
        ("plate_number on stollen", "vehicle", "unknown_list"),
        ("speed_kmh > 80 or not plate_number on gone", "vehicle", "unknown_list"),
        ("face_feature on nobody", "face", "unknown_list"),
        ("plate_number on wanted", "vehicle", "list_of_faces"),
        ("face_feature on stolen", "face", "list_of_plates"),
        ("face_feature on wanted threshold 1.2", "face", "threshold"),
    ],
)
def test_a_rule_is_taken_where_all_lists_that_it_asks_for_are_in_force(
    text: str, kind: str, code: str
) -> None:
    world = world_with(STOLEN, WANTED)
    answer = world.ask("put", **put(text, kind))
    assert (answer.state, answer.code) == (("refused", code) if code else ("accepted", ""))
    if code:
        assert (answer.field, bool(answer.text)) == ("where", True)
        assert not world.records


def test_a_proposal_is_not_approved_when_its_list_has_ended() -> None:
    world = world_with(STOLEN, policy=PolicySettings())
    assert world.ask("put", **put("plate_number on stolen")).state == "proposed"
    world.machine = RuleMachine(PolicySettings())
    assert world.ask("approve", 8).code == "unknown_list"
    world.machine = RuleMachine(PolicySettings(), lambda: {"stolen": STOLEN})
    assert world.ask("approve", 9).state == "accepted"
