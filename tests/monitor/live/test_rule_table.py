"""The watch list's fold and its checks, for every order and content of commands."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_in_force import in_force

from bus.contracts.commands import DecidedRule
from bus.contracts.topics import EVENT_ALARM, EVENT_INCIDENT, METER_SENT, STATE_WATCHLIST
from bus.domain.matchable import MATCHABLE
from bus.domain.visibility import EVERYTHING
from monitor.live.live_consumer import LiveBatch, _event
from monitor.live.rule_table import MAX_EXPIRED_PER_CALL, RuleTable, decode_command
from spark_apps.apps.latency import DECODER
from spark_apps.batches.message import decoded
from spark_apps.tasks.judge import counters_of

NOW_MS = 1_000_000
TEXTS = st.text(max_size=120)
COMMANDS = st.builds(
    DecidedRule,
    rule_id=st.sampled_from(["a", "b", "c"]),
    op=st.sampled_from(["put", "remove"]),
    version=st.integers(0, 12),
    name=TEXTS,
    note=st.text(max_size=20),
    match=st.dictionaries(
        st.sampled_from([*MATCHABLE["vehicle"], *MATCHABLE["face"], "nonsense"]),
        st.lists(TEXTS, max_size=3),
        max_size=3,
    ),
    kind=st.sampled_from(["vehicle", "face"]),
    valid_from_ms=st.integers(0, 2 * NOW_MS),
    valid_until_ms=st.integers(0, 2 * NOW_MS),
)


def once_per_version(commands: list[DecidedRule]) -> list[DecidedRule]:
    """As the topic has them: a version of a rule is one command."""
    return list({(c.rule_id, c.version): c for c in commands}.values())


@given(st.lists(COMMANDS, max_size=12).map(once_per_version), st.data())
def test_any_order_of_commands_and_any_repetition_gives_the_same_list(
    commands: list[DecidedRule], data: st.DataObject
) -> None:
    """The newest command of a rule is the state; an older one that comes late changes nothing."""
    first, second = RuleTable(), RuleTable()
    for command in commands:
        first.apply(command)
    again = data.draw(st.lists(st.sampled_from(commands), max_size=5)) if commands else []
    for command in data.draw(st.permutations([*commands, *again])):
        second.apply(command)
    assert in_force(first, NOW_MS) == in_force(second, NOW_MS)
    newest = {c.rule_id: c for c in sorted(commands, key=lambda c: c.version)}
    wanted = {
        c.rule_id for c in newest.values()
        if c.op == "put" and not 0 < c.valid_until_ms <= NOW_MS
    }  # fmt: skip
    assert {c.rule_id for c in in_force(first, NOW_MS)} == wanted


@given(st.lists(COMMANDS, max_size=12), st.integers(0, 2 * NOW_MS), st.integers(1, 5), st.data())
def test_pages_have_every_rule_in_force_once_newest_first_whatever_comes_between_two_of_them(
    commands: list[DecidedRule], now_ms: int, limit: int, data: st.DataObject
) -> None:
    """A person leafs while others put and remove: what was there all the time is seen just once."""
    book = RuleTable()
    late = data.draw(st.integers(0, len(commands)))
    for command in commands[:late]:
        book.apply(command)
    before, seen, cursor = in_force(book, now_ms), [], ""
    for number in range(len(commands) + 2):
        page = book.page(now_ms, viewer=EVERYTHING, limit=limit, cursor=cursor)
        assert len(page.rules) <= limit
        seen += page.rules
        if number == 0:
            for command in commands[late:]:
                book.apply(command)
        if not page.cursor:
            break
        cursor = page.cursor
    assert [c.version for c in seen] == sorted((c.version for c in seen), reverse=True)
    assert len({(c.rule_id, c.version) for c in seen}) == len(seen)
    stayed = [c for c in before if book.get(c.rule_id) == c]
    assert [c for c in seen if c in stayed] == [c for c in before if c in stayed]
    assert book.count(now_ms, EVERYTHING) == len(in_force(book, now_ms))


@given(st.text(max_size=30))
def test_a_cursor_of_no_list_is_refused_and_says_so(text: str) -> None:
    """Never everything, never another error."""
    book = RuleTable()
    book.apply(DecidedRule(rule_id="a", op="put", version=5))
    if text and not re.fullmatch(r"-?[0-9]+:.*", text, re.DOTALL):
        with pytest.raises(ValueError, match="none of this list"):
            book.page(NOW_MS, viewer=EVERYTHING, limit=5, cursor=text)
    else:
        assert len(book.page(NOW_MS, viewer=EVERYTHING, limit=5, cursor=text).rules) <= 1


def test_a_version_beyond_every_machine_number_is_shown_and_can_be_overcome() -> None:
    """Commands come from other hands as well."""
    book = RuleTable()
    book.apply(DecidedRule(rule_id="a", op="put", version=10**30))
    book.apply(DecidedRule(rule_id="b", op="put", version=10**31))
    page = book.page(NOW_MS, viewer=EVERYTHING, limit=1)
    assert [c.rule_id for c in page.rules] == ["b"]
    assert [c.rule_id for c in book.page(NOW_MS, viewer=EVERYTHING, limit=1, cursor=page.cursor).rules] == ["a"]
    assert book.apply(DecidedRule(rule_id="a", op="remove", version=10**30 + 1))


def test_what_has_ended_leaves_the_list_a_slice_at_a_time() -> None:
    """A hundred thousand rules that end together hold nobody up; a page is never without its rest."""
    book, count = RuleTable(), 3 * MAX_EXPIRED_PER_CALL
    for number in range(count):
        book.apply(DecidedRule(rule_id=f"w{number}", op="put", version=number, valid_until_ms=1))
    book.apply(DecidedRule(rule_id="stays", op="put", version=0))
    assert book.count(0, EVERYTHING) == count + 1
    first = book.page(1, viewer=EVERYTHING, limit=10)
    assert (first.rules, bool(first.cursor)) == ([], True)
    assert [c.rule_id for c in in_force(book, 1)] == ["stays"]
    assert book.count(1, EVERYTHING) == 1


@given(COMMANDS)
def test_a_command_comes_back_from_the_topic_as_it_was_sent(command: DecidedRule) -> None:
    """Every text, every number."""
    assert decode_command(msgspec.json.encode(command)) == command


POISON = [
    b'{"rule_id": "a", "op": "put", "version": 1, "name": "\xff"}',
    b'{"rule_id": "a", "x": ' + b"[" * 20_000,
    b'{"producer": "\xff"}', b'{"kind": "\xff"}', b'{"alarm_id": "\xff"}', b"\xff", b"",
]  # fmt: skip


@given(st.one_of(st.binary(max_size=200), st.text(max_size=80).map(str.encode)))
def test_any_bytes_on_the_topic_are_a_command_or_none(value: bytes) -> None:
    """A foreign message there must not end the reader."""
    assert decode_command(value) is None or isinstance(decode_command(value), DecidedRule)


@pytest.mark.parametrize("number", range(len(POISON)))
def test_what_is_no_message_is_passed_over_by_every_reader_of_our_own_topics(number: int) -> None:
    """It comes again after each restart: a text that is no UTF-8, or nested without end, ended the
    console, the dispatcher and two streams for good."""
    value = POISON[number]
    assert decode_command(value) is None
    assert counters_of([value], METER_SENT) == []
    assert list(decoded([value], DECODER)) == []
    for topic in (STATE_WATCHLIST, EVENT_ALARM, EVENT_INCIDENT):
        batch = LiveBatch()
        _event(batch, topic, RuleBytes(value))
        assert (batch.commands, batch.alarms, batch.incidents) == ([], [], [])


class RuleBytes:
    """The part of a message that is read here."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        return self._value

    def key(self) -> bytes:
        return b"a"

    def offset(self) -> int:
        return 7
