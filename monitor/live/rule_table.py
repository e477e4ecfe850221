"""The watch list as its topic tells it: the newest command per rule is the state (pure).

In: commands in any order. Out: the rules in force at a moment, page by page. Never: matching,
Kafka, a call whose cost follows the number of rules.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from typing import TypeVar

import msgspec

from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import SEPARATOR
from bus.domain.expressions.tree import ExpressionError, check_size
from bus.domain.rule_check import is_over
from bus.domain.visibility import Viewer, may_see
from monitor.live.case_index import CaseIndex

MAX_EXPIRED_PER_CALL = 1000  # rules whose time is over that one call looks at: some milliseconds


_Place = tuple[int, str]
"""Where a rule stands: its version, then its id."""
_NUMBER = re.compile("[0-9]{1,9}")
_CURSOR = re.compile(r"(-?[0-9]{1,4000}):(.*)", re.DOTALL)
T = TypeVar("T", tuple[int, str], tuple[int, tuple[int, str]])


class RulePage(msgspec.Struct, frozen=True):
    """Some rules in force, newest first; `cursor` is empty where no more follow. A page may be
    short and have a cursor: rules whose time is over were passed on the way."""

    rules: list[DecidedRule]
    cursor: str


class RuleTable:
    """Holds commands as they are encoded: of 100,000 rules a person looks at some hundred.

    Invariant: `_newest` has per rule id the command with the highest version, a removed one too;
    `_order` has those that are put and that `expire` has not yet taken out, oldest first; `_ends`
    has the ends of just these, of those that have one, the next first; `_units` which units see
    them, of those that not everybody sees, and `_restricted` how many of them the same units see;
    `cases` has just these, by the case that they name.
    """

    def __init__(self) -> None:
        self._floor = -1
        self._newest: dict[str, bytes | DecidedRule] = {}
        self._order: list[_Place] = []
        self._ends: list[tuple[int, _Place]] = []
        self._units: dict[_Place, tuple[str, ...]] = {}
        self._restricted: Counter[tuple[str, ...]] = Counter()
        self.cases = CaseIndex()

    def apply(self, command: DecidedRule) -> bool:
        """Take a command; False when it changes no rule: a later one is known, or it is too old."""
        if command.op == "floor":
            self._floor = max(self._floor, command.version)
        if command.version <= self._floor:
            return False
        rule_id, known = command.rule_id, self.get(command.rule_id)
        if known is not None and (_rank(known) > _rank(command) or known == command):
            return False
        self._take_out(known)
        self._newest[rule_id] = _held(command)
        if command.op == "put":
            insort(self._order, _place(command))
            self.cases.put(command)
            if command.visible_to:
                units = self._units[_place(command)] = tuple(command.visible_to)
                self._restricted[units] += 1
            if command.valid_until_ms > 0:
                insort(self._ends, (command.valid_until_ms, _place(command)))
        return True

    def forget(self, rule_id: str) -> None:
        """A tombstone on the topic: nothing is known of the rule any more, unless what is known is
        above the floor, where no tombstone means anything."""
        known = self.get(rule_id)
        if known is not None and known.version <= self._floor:
            self._take_out(known)
            del self._newest[rule_id]

    def get(self, rule_id: str) -> DecidedRule | None:
        """The newest command of a rule, removed or not."""
        held = self._newest.get(rule_id)
        return _decode(held) if isinstance(held, bytes) else held

    def expire(self, now_ms: int) -> None:
        """Take rules whose time is over out of the order, so many a call that no other work
        waits for it."""
        most = min(len(self._ends), MAX_EXPIRED_PER_CALL)
        over = bisect_right(self._ends, now_ms, hi=most, key=_end)
        for _, place in self._ends[:over]:
            if (ended := self.get(place[1])) is not None:
                self.cases.take_out(ended)
            self._remove_from_order(place)
        del self._ends[:over]

    def page(
        self, now_ms: int, *, limit: int, viewer: Viewer, cursor: str = ""
    ) -> RulePage:
        """Rules in force (those of the future too) that `viewer` sees, after `cursor`, newest
        first. Raises `ValueError` for a cursor that is none of this list."""
        self.expire(now_ms)
        end = self._position_of(cursor) if cursor else len(self._order)
        begin = max(0, end - limit - MAX_EXPIRED_PER_CALL)
        found: list[DecidedRule] = []
        while end > begin and len(found) < limit:
            end -= 1
            place = self._order[end]
            if not self._is_visible(place, viewer):
                continue
            rule = self.get(place[1])
            if rule is not None and not is_over(rule, now_ms):
                found.append(rule)
        return RulePage(found, self._cursor_of(end, viewer) if end else "")

    def count(self, now_ms: int, viewer: Viewer) -> int:
        """How many that `viewer` sees are in force; some that have just ended may still be
        counted."""
        self.expire(now_ms)
        hidden = sum(
            count for units, count in self._restricted.items() if not may_see(viewer, units)
        )
        return len(self._order) - hidden

    def _is_visible(self, place: _Place, viewer: Viewer) -> bool:
        return may_see(viewer, self._units.get(place, ()))

    def _cursor_of(self, at: int, viewer: Viewer) -> str:
        """Names the last rule that was passed, whatever comes meanwhile; of one that is hidden only
        its version, and how many of the same version stand before it."""
        version, rule_id = self._order[at]
        if self._is_visible((version, rule_id), viewer):
            return f"{version}:{rule_id}"
        return f"{version}:{SEPARATOR}{at - bisect_left(self._order, (version, ''))}"

    def _position_of(self, cursor: str) -> int:
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            raise ValueError("none of this list")
        version, named = int(found[1]), found[2]
        if not named.startswith(SEPARATOR):  # no rule's id does
            return bisect_left(self._order, (version, named))
        if not _NUMBER.fullmatch(named, 1):
            raise ValueError("none of this list")
        first = bisect_left(self._order, (version, ""))
        return min(first + int(named[1:]), len(self._order))

    def _remove_from_order(self, place: _Place) -> None:
        _remove(self._order, place)
        units = self._units.pop(place, None)
        if units is not None:
            self._restricted[units] -= 1
            if not self._restricted[units]:
                del self._restricted[units]

    def _take_out(self, known: DecidedRule | None) -> None:
        if known is not None and known.op == "put":
            self.cases.take_out(known)
            self._remove_from_order(_place(known))
            if known.valid_until_ms > 0:
                _remove(self._ends, (known.valid_until_ms, _place(known)))


def _rank(command: DecidedRule) -> tuple[int, bool]:
    """Of two commands of one version the removal wins, of two puts the later one."""
    return command.version, command.op == "remove"


def _held(command: DecidedRule) -> bytes | DecidedRule:
    """As bytes, which are a quarter; a number that they cannot hold is not refused here."""
    try:
        return msgspec.msgpack.encode(command)
    except OverflowError:
        return command


def _remove(ordered: list[T], one: T) -> None:
    at = bisect_left(ordered, one)
    if at < len(ordered) and ordered[at] == one:
        del ordered[at]


def _place(command: DecidedRule) -> _Place:
    return command.version, command.rule_id


def _end(ending: tuple[int, _Place]) -> int:
    return ending[0]


_decode = msgspec.msgpack.Decoder(DecidedRule).decode


def decode_command(value: bytes) -> DecidedRule | None:
    """A command from the topic; None when it is not one of ours."""
    try:
        rule = msgspec.json.decode(value, type=DecidedRule)
        if rule.where is not None:
            check_size(rule.where)
        return rule
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ExpressionError):
        return None
