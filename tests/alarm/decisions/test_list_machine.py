"""What becomes of a request for a list: every state, every action, and chunks that are not there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions.list_machine import MAX_CHUNK_AGE_MS
from alarm.decisions.list_states import ACTIONS, TRANSITIONS, ListState
from alarm.decisions.machine import Decided
from alarm.decisions.requests import independent
from bus.contracts.command_codes import (
    CHUNK_MISSING,
    MANY_REMOVED,
    NO_PROPOSAL,
    NO_SUCH_LIST,
    NOT_PRIMARY,
    STALE,
)
from bus.contracts.commands import CommandAnswer
from bus.contracts.plate_lists import (
    ListLine,
    NamedChunk,
    base_key,
    named_keys,
)
from bus.domain import list_check
from bus.domain.list_chunks import base_chunks, read_chunk
from tests.alarm.decisions.list_world import BASE, NOW_MS, OTHER_BASE, ListWorld, lines

OPS = ("put", "change", "remove")
STATES = (ListState.ABSENT, ListState.IN_FORCE, ListState.ENDED)
"""Of a site that asks for no approval."""


def in_state(state: ListState) -> ListWorld:
    world = ListWorld()
    if state is not ListState.ABSENT:
        world.asked("put")
    if state is ListState.ENDED:
        world.asked("remove", NOW_MS + 1)
    assert world.known.state_of("l", NOW_MS) is state
    return world


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("state", STATES)
def test_every_state_has_an_answer_to_everything_that_can_be_asked(state: ListState, op: str) -> None:
    """The table is what happens: the next state, or a refusal that changes nothing."""
    world = in_state(state)
    following = TRANSITIONS[state, op]
    before = world.in_force
    answer = world.asked(op, NOW_MS + 5)
    if isinstance(following, str):
        assert (answer.state, answer.code, answer.field) == ("refused", following, "list_id")
        assert world.in_force == before
    else:
        assert (answer.state, answer.version, answer.key) == ("accepted", NOW_MS + 5, "l")
        assert world.known.state_of("l", NOW_MS) is following
        assert (world.in_force.version, world.in_force.decided_by) == (NOW_MS + 5, "li")


def test_the_table_knows_every_state_and_every_action() -> None:
    assert set(TRANSITIONS) == {(state, action) for state in ListState for action in ACTIONS}
    assert {one for one in TRANSITIONS.values() if isinstance(one, str)} == {NO_SUCH_LIST, NO_PROPOSAL}


def missing(world: ListWorld, chunks: tuple[NamedChunk, ...]) -> None:
    world.write(base_key("l", BASE, chunks[-1].number), None)


def another(world: ListWorld, chunks: tuple[NamedChunk, ...]) -> None:
    world.write(base_key("l", BASE, chunks[-1].number), b"other lines")


def too_old(world: ListWorld, chunks: tuple[NamedChunk, ...]) -> None:
    world.base(10_003, at_ms=NOW_MS - MAX_CHUNK_AGE_MS - 1)


@pytest.mark.parametrize("spoil", [missing, another, too_old])
def test_a_list_never_names_lines_that_are_not_there(
    spoil: Callable[[ListWorld, tuple[NamedChunk, ...]], None]
) -> None:
    """Nor others, nor such as the site's recorder may take away meanwhile."""
    world = ListWorld()
    chunks = world.base(10_003)
    assert len(chunks) == 2
    spoil(world, chunks)
    refused = world.asked("put", chunks=chunks)
    assert (refused.state, refused.code, refused.field) == ("refused", CHUNK_MISSING, "chunks")
    assert world.asked("put", chunks=world.base(10_003)).state == "accepted"


def test_another_text_of_the_same_base_needs_no_lines_anew_and_keeps_the_changes() -> None:
    world = in_state(ListState.IN_FORCE)
    world.asked("change", NOW_MS + 1)
    later = NOW_MS + 10 * MAX_CHUNK_AGE_MS
    answer = world.asked("put", later, chunks=world.in_force.chunks, name="other", tolerance="distance 1")
    assert (answer.state, world.in_force.name, world.in_force.changed_lines) == ("accepted", "other", 1)
    assert (world.in_force.renewed_at_ms, world.in_force.decided_at_ms) == (NOW_MS, later)


def test_a_change_is_a_chunk_of_its_own_and_stands_before_the_record_that_names_it() -> None:
    world = in_state(ListState.IN_FORCE)
    decision = world.decide(world.request("change", removed_plates=("浙A00003",)), NOW_MS + 7)
    (chunk_key, value), (key, _) = decision.records
    assert (chunk_key.decode(), key) == (f"l/{BASE}/+{NOW_MS + 7}", b"l")
    world.record(decision)
    named = named_keys(world.in_force)[chunk_key.decode()]
    chunk = read_chunk(named, value)
    assert (chunk.lines, chunk.removed) == ([ListLine(0, "沪B12345")], ["浙A00003"])
    assert (world.in_force.name, world.in_force.base_lines, world.in_force.changed_lines) == ("n", 10, 2)


@pytest.mark.parametrize(("stated", "new"), [(3, 10), (0, 7)])
def test_a_fifth_of_the_lines_goes_only_if_somebody_says_that_it_is_meant(stated: int, new: int) -> None:
    """Whatever the sender says of it, where the number of lines tells more."""
    world = in_state(ListState.IN_FORCE)
    fields = {"chunks": world.base(new, OTHER_BASE), "base": OTHER_BASE, "removed_lines": stated}
    refused = world.asked("put", **fields)
    assert (refused.code, refused.field) == (MANY_REMOVED, "confirms_removal")
    assert "3 of 10 lines would go" in refused.text
    assert world.asked("put", **fields, confirms_removal=True).state == "accepted"
    many = tuple(line.plate for line in lines(3))
    assert world.asked("change", removed_plates=many, put_lines=()).code == MANY_REMOVED


def test_two_who_import_at_once_do_not_overwrite_each_other() -> None:
    world = in_state(ListState.IN_FORCE)
    seen = world.in_force.version
    first = {"chunks": world.base(11, OTHER_BASE), "base": OTHER_BASE}
    unseen = world.asked("put", **first, seen_version=-1)
    assert (unseen.code, unseen.field) == ("no_seen_version", "seen_version")
    assert world.asked("put", NOW_MS + 1, **first, seen_version=seen).state == "accepted"
    stale = world.asked("put", NOW_MS + 2, **first, seen_version=seen, name="second")
    assert (stale.code, stale.version, stale.changed_by) == (STALE, NOW_MS + 1, "li")


def test_a_site_that_mirrors_another_one_refuses() -> None:
    world = ListWorld()
    decision = world.decide(world.request("put"), is_primary=False)
    assert (decision.records, decision.answer and decision.answer.code) == ((), NOT_PRIMARY)


@pytest.mark.parametrize(
    ("op", "fields", "field", "code"),
    [
        ("put", {"list_id": "a/b", "seen_version": 0}, "list_id", "list_id"),
        ("put", {"list_id": "version-floor", "seen_version": 0}, "list_id", "list_id"),
        ("put", {"name": ""}, "name", "name_length"),
        ("put", {"owner": "x" * 201}, "owner", "text_length"),
        ("put", {"date": "2026-02-30"}, "date", "date"),
        ("put", {"renewal_days": -1}, "renewal_days", "renewal_days"),
        ("put", {"base": "../../etc"}, "base", "base"),
        ("put", {"chunks": (NamedChunk(1, 1, "a" * 64),)}, "chunks", "chunks"),
        ("put", {"chunks": (NamedChunk(0, 0, "a" * 64),)}, "chunks", "chunks"),
        ("put", {"chunks": (NamedChunk(0, 10_001, "a" * 64),)}, "chunks", "chunks"),
        ("put", {"author": "x" * 201}, "author", "text_length"),
        ("change", {"put_lines": ()}, "put_lines", "line_count"),
        ("change", {"put_lines": (ListLine(0, "浙a12345"),)}, "put_lines", "plate"),
        ("change", {"put_lines": (ListLine(0, "浙A1?345"),)}, "put_lines", "plate"),
        ("change", {"removed_plates": ("沪B12345",)}, "put_lines", "plate_twice"),
        ("change", {"put_lines": (ListLine(0, "沪B12345", "x" * 201),)}, "put_lines", "note_length"),
        ("change", {"put_lines": (ListLine(0, "沪B12345", "", "soon"),)}, "put_lines", "date"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_part_at_fault_and_changes_nothing(
    op: str, fields: dict[str, object], field: str, code: str
) -> None:
    world = in_state(ListState.IN_FORCE)
    before = world.in_force
    answer = world.asked(op, **fields)
    assert (answer.state, answer.field, answer.code) == ("refused", field, code)
    assert answer.text
    assert world.in_force == before


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [
        ("MAX_LISTS", 1, "too_many_lists"), ("MAX_LINES", 19, "too_many_lines"),
        ("MAX_CHANGES", 0, "too_many_changes"), ("MAX_CHANGED_LINES", 0, "too_many_changes"),
    ],
)  # fmt: skip
def test_there_is_room_for_so_many_lists_lines_and_changes(
    limit: str, value: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one list lacks it does not take from itself: put again it has room."""
    world = in_state(ListState.IN_FORCE)
    monkeypatch.setattr(f"alarm.decisions.list_machine.{limit}", value)
    assert getattr(list_check, limit) > value
    if code == "too_many_changes":
        assert world.asked("change").code == code
        return
    chunks = list(base_chunks(lines(10)))
    for one in chunks:
        world.write(base_key("m", BASE, one.named.number), one.value)
    named = tuple(one.named for one in chunks)
    assert world.asked("put", list_id="m", chunks=named, seen_version=0).code == code
    assert world.asked("put", chunks=world.base(10, OTHER_BASE), base=OTHER_BASE).state == "accepted"


def test_requests_that_make_lists_longer_are_decided_one_after_the_other() -> None:
    world = ListWorld()
    asked = [
        world.request("put"), world.request("put", list_id="m"), world.request("remove", list_id="n"),
        world.request("remove", list_id="o"), world.request("remove"),
    ]  # fmt: skip
    assert [len(group) for group in independent(asked, world.machine.names)] == [1, 4]


@given(st.lists(st.tuples(st.sampled_from(OPS), st.booleans()), max_size=8), st.data())
def test_a_decider_that_dies_anywhere_is_followed_by_one_that_goes_on(
    wishes: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """After any of the records of a decision, or before the answer: the same requests, decided again
    from what stands there, give each one answer, and a record names only chunks that are there."""
    straight, broken = ListWorld(), ListWorld()
    for number, (op, is_other) in enumerate(wishes):
        fields: dict[str, object] = {"confirms_removal": True}
        if op == "put":
            fields["base"] = OTHER_BASE if is_other else BASE
            fields["chunks"] = straight.base(10, str(fields["base"]))
            broken.base(10, str(fields["base"]))
        asked = straight.request(op, **fields)
        straight.carry_out(asked, NOW_MS + 10 * number)
        decision = broken.decide(asked, NOW_MS + 10 * number)
        done = data.draw(st.integers(0, len(decision.records)))
        broken.record(Decided(decision.records[:done], None))
        after = ListWorld()
        for record in broken.records:
            after.write((record.key or b"").decode(), record.value, record.timestamp_ms)
        for answer in broken.answers:
            after.answers.append(answer)
            after.answered.apply(answer)
        broken = after
        broken.carry_out(asked, NOW_MS + 10 * number)
        for key, named in named_keys(broken.in_force).items():
            assert broken.known.chunks[key].sha256 == named.sha256
    given = [msgspec.json.decode(one.value or b"", type=CommandAnswer) for one in broken.answers]
    expected = [msgspec.json.decode(one.value or b"", type=CommandAnswer) for one in straight.answers]
    assert [(one.command_id, one.state, one.code) for one in given] == [
        (one.command_id, one.state, one.code) for one in expected
    ]
    assert broken.in_force.changed_lines == straight.in_force.changed_lines


@given(st.binary(max_size=60))
def test_any_bytes_on_the_topic_change_nothing(value: bytes) -> None:
    world = in_state(ListState.IN_FORCE)
    before = world.in_force
    world.write("l", value)
    world.write("\udcff".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), value)
    assert world.in_force == before
