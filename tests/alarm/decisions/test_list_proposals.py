"""Lists that wait for an approval: every state, every action, another text, oneself, crashes, chunks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions.list_approval import MAX_WAITING_LISTS
from alarm.decisions.list_states import ACTIONS, TRANSITIONS, ListState
from alarm.decisions.machine import Decided
from alarm.dispatch.table_maintenance import read_list
from alarm.lists.stored_lists import StoredLists
from alarm.lists.unnamed_chunks import UNNAMED_MS, UnnamedChunks
from bus.contracts.command_codes import (
    CHUNK_MISSING,
    NO_REASON,
    NOT_OWN_PROPOSAL,
    OTHER_TEXT,
    OWN_PROPOSAL,
    PROPOSAL_WAITS,
    TOO_MANY_PROPOSALS,
)
from bus.contracts.commands import CommandAnswer
from bus.contracts.list_proposals import WAITS_MS, ListProposal
from bus.contracts.plate_lists import ListRecord, base_key, named_keys
from bus.contracts.proposals import proposal_key
from bus.domain.list_text import list_text_sha256
from bus.domain.policy import PolicySettings
from tests.alarm.decisions.list_world import BASE, NOW_MS, OTHER_BASE, ListWorld

POLICY = PolicySettings(list_sources={"l": "feed"})
PROPOSER, APPROVER = {"account": "li", "reason": "weekly"}, {"account": "zhao", "reason": "checked"}
NEW_LIST = {"chunks": None, "base": OTHER_BASE}


def waiting(world: ListWorld, now_ms: int = NOW_MS) -> ListProposal:
    found = world.known.waiting_for("l", now_ms)
    assert found is not None
    return found


def propose(world: ListWorld, now_ms: int = NOW_MS, base: str = BASE, **fields: object) -> CommandAnswer:
    chunks = world.base(10, base, now_ms)
    return world.asked("put", now_ms, chunks=chunks, base=base, **{**PROPOSER, **fields})


def settle(world: ListWorld, op: str, now_ms: int = NOW_MS + 5, **fields: object) -> CommandAnswer:
    known = world.known.proposals.get("l").waits
    named = {"text_sha256": list_text_sha256(known.text)} if known is not None else {}
    return world.asked(op, now_ms, **{**named, **APPROVER, **fields})


def by_source(world: ListWorld, op: str = "put", now_ms: int = NOW_MS) -> CommandAnswer:
    return world.asked(op, now_ms, account="Feed")


def in_state(state: ListState) -> ListWorld:
    world = ListWorld(POLICY)
    if state in (ListState.IN_FORCE, ListState.CHANGING, ListState.ENDED):
        assert by_source(world).state == "accepted"
    if state is ListState.ENDED:
        world.asked("remove", NOW_MS + 1)
    if state in (ListState.PROPOSED, ListState.CHANGING):
        assert propose(world, base=OTHER_BASE).state == "proposed"
    assert world.known.state_of("l", NOW_MS) is state
    return world


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", ListState)
def test_every_state_has_an_answer_to_every_action(state: ListState, action: str) -> None:
    """What is in force stays until something else is; what waits is not in force."""
    world, now_ms = in_state(state), NOW_MS + 5
    following, before = TRANSITIONS[state, action], world.in_force
    if action in ("put", "change"):
        answer = by_source(world, action, now_ms)
    elif action == "propose":
        answer = propose(world, now_ms)
    elif action == "propose change":
        answer = world.asked("change", now_ms, **PROPOSER)
    else:
        answer = settle(world, action, **(PROPOSER if action == "withdraw" else {}))
    if isinstance(following, str):
        assert (answer.state, answer.code, answer.field) == ("refused", following, "list_id")
    else:
        assert answer.state == ("proposed" if action.startswith("propose") else "accepted"), answer
        if following is ListState.ENDED and before.list_id == "":
            following = ListState.ABSENT
        assert world.known.state_of("l", now_ms) is following
    is_decided = action in ("put", "change", "approve", "remove") and not isinstance(following, str)
    assert (world.in_force != before) == is_decided


def test_an_approved_list_is_what_was_proposed_and_says_who_did_what() -> None:
    """However long it waited: its lines stand on the topic for as long, and longer."""
    world, later = in_state(ListState.CHANGING), NOW_MS + WAITS_MS - 1
    text = waiting(world).text
    assert settle(world, "approve", later).state == "accepted"
    record = world.in_force
    assert (record.base, record.chunks, record.version) == (OTHER_BASE, text.chunks, later)
    assert (record.account, record.reason, record.approved_by, record.approval_reason) == (
        "li", "weekly", "zhao", "checked",
    )  # fmt: skip
    assert world.known.waiting(later) == []
    assert settle(world, "approve", later).code == "no_proposal"


def test_a_proposed_change_is_put_beside_the_lines_when_it_is_approved() -> None:
    world = in_state(ListState.IN_FORCE)
    before = world.in_force
    assert world.asked("change", NOW_MS + 1, **PROPOSER).state == "proposed"
    assert world.in_force == before
    assert settle(world, "approve").state == "accepted"
    assert (world.in_force.base, world.in_force.changed_lines) == (BASE, 1)
    assert all(key in world.known.chunks for key in named_keys(world.in_force))


@pytest.mark.parametrize("is_refused", [True, False])
def test_nobody_settles_his_own_list_nor_another_text_nor_without_saying_why(is_refused: bool) -> None:
    world = in_state(ListState.PROPOSED)
    asked = {
        OWN_PROPOSAL: settle(world, "approve", account=" LI "),
        OTHER_TEXT: settle(world, "approve", text_sha256="0" * 64),
        NO_REASON: settle(world, "reject", reason=" ") if is_refused else settle(world, "approve", reason=""),
        NOT_OWN_PROPOSAL: settle(world, "withdraw"),
        PROPOSAL_WAITS: propose(world, account="sun"),
    }
    assert {code: one.code for code, one in asked.items()} == {code: code for code in asked}
    assert settle(world, "approve", text_sha256="").code == OTHER_TEXT
    first = waiting(world)
    assert propose(world, NOW_MS + 1, name="another name").state == "proposed"
    assert waiting(world).version > first.version
    assert settle(world, "approve", text_sha256=list_text_sha256(first.text)).code == OTHER_TEXT
    assert ListWorld(POLICY).asked("put", account="li").code == NO_REASON


def test_the_digest_of_a_list_is_of_what_it_says_and_not_of_who_asks() -> None:
    text = waiting(in_state(ListState.PROPOSED)).text
    same = msgspec.structs.replace(text, account="x", reason="y", case="z", command_id="c", seen_version=9)
    assert list_text_sha256(same) == list_text_sha256(text)
    first, *others = text.chunks
    for changed in (
        {"name": "other"}, {"op": "change"}, {"tolerance": "distance 1"}, {"confirms_removal": True},
        {"chunks": (msgspec.structs.replace(first, sha256="f" * 64), *others)},
    ):  # fmt: skip
        assert list_text_sha256(msgspec.structs.replace(text, **changed)) != list_text_sha256(text)


@pytest.mark.parametrize("gone", [True, False])
def test_what_is_proposed_or_approved_stands_whole_on_the_topic(gone: bool) -> None:
    """A chunk that went, or is another one."""
    world = in_state(ListState.PROPOSED)
    world.write(base_key("l", OTHER_BASE, 0), None if gone else b"other lines")
    assert settle(world, "approve").code == CHUNK_MISSING
    assert world.known.state_of("l", NOW_MS) is ListState.PROPOSED
    fields = {**PROPOSER, "chunks": waiting(world).text.chunks, "base": OTHER_BASE}
    assert world.asked("put", **fields).code == CHUNK_MISSING


def due(world: ListWorld, now_ms: int) -> set[str]:
    """Keys that the site's recorder takes away."""
    chunks = UnnamedChunks()
    for record in world.records:
        chunks.apply(record)
    return {key.decode() for key in chunks.due(now_ms, is_primary=True)}


def test_lines_of_what_waits_stay_and_those_of_what_is_refused_or_over_go() -> None:
    """And for an hour longer: it may just be being approved."""
    proposed = {base_key("l", OTHER_BASE, 0)}
    world = in_state(ListState.CHANGING)
    end_ms = waiting(world).ends_ms
    assert due(world, NOW_MS + 2 * UNNAMED_MS) == due(world, end_ms + UNNAMED_MS - 1) == set()
    assert due(world, end_ms + UNNAMED_MS) == proposed
    assert settle(world, "approve", end_ms).code == "no_proposal"
    settle(world, "reject")
    assert due(world, NOW_MS + UNNAMED_MS + 1) == proposed
    approved = in_state(ListState.CHANGING)
    settle(approved, "approve")
    assert due(approved, end_ms + 2 * UNNAMED_MS) == {base_key("l", BASE, 0)}


def test_readers_of_lists_see_nothing_of_what_waits() -> None:
    """Neither those of this version nor earlier ones: the value is none of a list's."""
    world = in_state(ListState.CHANGING)
    stored = StoredLists()
    for record in world.records:
        stored.apply(record)
    assert [one.base for one in stored.in_force.values()] == [BASE]
    assert [one.text.base for one in stored.waiting(NOW_MS)] == [OTHER_BASE]
    [value] = [r.value for r in world.records if r.key == proposal_key("l").encode()]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(value or b"", type=ListRecord)
    settle(world, "reject")
    commands = [read_list(r) for r in world.records if r.key == proposal_key("l").encode()]
    assert [one is not None and one.is_removal for one in commands] == [False, True]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alarm.decisions.list_approval.MAX_WAITING_LISTS", 2)
    monkeypatch.setattr("alarm.decisions.list_approval.MAX_WAITING_LINES", 25)
    assert MAX_WAITING_LISTS == 100
    world = ListWorld(POLICY)

    def proposed(list_id: str, count: int) -> CommandAnswer:
        chunks = world.base(count)
        for one in chunks:
            value = next(r.value for r in reversed(world.records) if (r.key or b"").startswith(b"l/"))
            world.write(base_key(list_id, BASE, one.number), value)
        return world.asked("put", list_id=list_id, chunks=chunks, **PROPOSER)

    assert proposed("a", 10).state == "proposed"
    assert proposed("b", 16).code == TOO_MANY_PROPOSALS
    assert proposed("b", 15).state == "proposed"
    assert proposed("c", 1).code == TOO_MANY_PROPOSALS
    assert proposed("b", 12).state == "proposed"


@given(
    st.lists(st.sampled_from(["source", "propose", "change", "approve", "reject", "withdraw", "remove"]), max_size=7),
    st.data(),
)
def test_a_crash_between_any_two_records_is_decided_again_the_same(wishes: list[str], data: st.DataObject) -> None:
    """Each request has one answer, and what follows from it is what follows without the crash."""
    straight, broken = ListWorld(POLICY), ListWorld(POLICY)
    for number, wish in enumerate(wishes):
        now_ms = NOW_MS + 10 * number
        known = straight.known.proposals.get("l").waits
        named = {"text_sha256": list_text_sha256(known.text)} if known is not None else {}
        base = f"{number:032x}"
        if wish in ("source", "propose"):
            fields = {"chunks": straight.base(10, base, now_ms), "base": base}
            broken.base(10, base, now_ms)
            asked = straight.request("put", **fields, **({"account": "feed"} if wish == "source" else PROPOSER))
        elif wish in ("change", "withdraw"):
            asked = straight.request(wish, **PROPOSER)
        else:
            asked = straight.request(wish, **named, **APPROVER)
        answer = straight.carry_out(asked, now_ms)
        decision = broken.decide(asked, now_ms)
        done = data.draw(st.integers(0, len(decision.records)))
        broken.record(Decided(decision.records[:done], None))
        after = ListWorld(POLICY)
        for record in broken.records:
            after.write((record.key or b"").decode(), record.value, record.timestamp_ms)
        for one in broken.answers:
            after.answers.append(one)
            after.answered.apply(one)
        broken = after
        again = broken.carry_out(asked, now_ms)
        assert (again.state, again.code) == (answer.state, answer.code)
        assert broken.in_force == straight.in_force
        waits = [world.known.waiting_for("l", now_ms) for world in (broken, straight)]
        assert waits[0] == waits[1]
