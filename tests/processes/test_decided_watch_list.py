"""The checkers of the watch list under kills find each fault that they are for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from decided_watch_list import (
    STATES,
    DecidedWatchList,
    faults_of_answers,
    faults_of_decisions,
    faults_of_list,
)
from operators_at_work import LINES, LIST, AskedCommand, Importing

from bus.client.model import ConsumedRecord
from bus.contracts.commands import CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.plate_lists import ListLine, ListRecord, base_key
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    EVENT_ALARM,
    EVENT_COMMAND,
    REQUEST_TOPICS,
    STATE_LISTS,
    STATE_WATCHLIST,
)
from bus.domain.list_chunks import base_chunks

pytestmark = pytest.mark.slow

ASKED = WatchCommand(rule_id="r", op="put", version=1, command_id="c")
ANSWER = CommandAnswer(
    command_id="c", topic=CONTROL_WATCHLIST, offset=0, key="r", state="accepted", version=7
)
DECIDED = DecidedRule(rule_id="r", op="put", version=7, command_id="c")


def of_topic(topic: str, values: Sequence[tuple[str, bytes]]) -> list[ConsumedRecord]:
    return [
        ConsumedRecord(topic, 0, offset, 1, key.encode(), value, ())
        for offset, (key, value) in enumerate(values)
    ]


def found(**topics: Sequence[msgspec.Struct]) -> DecidedWatchList:
    names = {"asked": CONTROL_WATCHLIST, "decided": STATE_WATCHLIST, "answered": EVENT_COMMAND}
    there = dict.fromkeys((*REQUEST_TOPICS, *STATES.values(), EVENT_COMMAND, EVENT_ALARM), ())
    made = {
        names[name]: of_topic(names[name], [("r", msgspec.json.encode(one)) for one in values])
        for name, values in topics.items()
    }
    return DecidedWatchList({**there, **made})


def faults(decided: DecidedWatchList) -> int:
    asked = [AskedCommand(ASKED, ANSWER)]
    return len(faults_of_answers(decided, asked) + faults_of_decisions(decided))


def test_a_request_without_an_answer_with_two_and_with_another_one_is_a_fault() -> None:
    refused = msgspec.structs.replace(ANSWER, state="refused", version=0)
    assert faults(found(asked=[ASKED], decided=[DECIDED], answered=[ANSWER])) == 0
    assert faults(found(asked=[ASKED, ASKED], decided=[DECIDED], answered=[ANSWER, ANSWER])) == 0
    assert faults(found(asked=[ASKED], decided=[DECIDED], answered=[ANSWER, ANSWER])) > 0
    assert faults(found(asked=[ASKED, ASKED], decided=[DECIDED], answered=[ANSWER, refused])) > 0
    assert faults(found(asked=[ASKED], decided=[DECIDED])) > 0
    assert faults(found(answered=[ANSWER])) > 0


def test_a_decision_that_is_missing_doubled_or_refused_is_a_fault() -> None:
    refused = msgspec.structs.replace(ANSWER, state="refused", version=0)
    assert faults(found(asked=[ASKED], answered=[ANSWER])) > 0
    assert faults(found(asked=[ASKED], decided=[DECIDED, DECIDED], answered=[ANSWER])) > 0
    decided = found(asked=[ASKED], decided=[DECIDED], answered=[refused])
    assert faults_of_decisions(decided) == [f"{STATE_WATCHLIST}: c was refused and is there"]


def lists(*notes: str) -> DecidedWatchList:
    """One base for each; all its lines have the note, but for a last one that has `between`."""
    values: list[tuple[str, bytes]] = []
    for version, note in enumerate(notes, 1):
        name, _, last = note.partition(" ")
        lines = [ListLine(n, f"浙A{n:05d}", name) for n in range(LINES)]
        lines[-1] = ListLine(LINES, "浙B00000", last or name)
        chunks = list(base_chunks(lines))
        base = f"{version:032d}"
        values += [(base_key(LIST, base, one.named.number), one.value) for one in chunks]
        named = tuple(one.named for one in chunks)
        record = ListRecord(list_id=LIST, op="put", version=version, base=base, name="n", chunks=named)
        values.append((LIST, msgspec.json.encode(record)))
    return DecidedWatchList({STATE_LISTS: of_topic(STATE_LISTS, values)})


def test_a_list_between_two_versions_one_that_is_missing_and_one_too_late_are_faults() -> None:
    first, second = Importing(1), Importing(2)
    assert faults_of_list(lists("v1", "v2"), [first, second, Importing(3, -9)]) == []
    assert len(faults_of_list(lists("v1", "v2 v1"), [first])) > 0
    assert len(faults_of_list(lists("v1"), [first, second])) == 1
    assert len(faults_of_list(lists("v2", "v1"), [first, second])) == 1
