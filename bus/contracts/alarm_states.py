"""What operators do about an alarm: their requests, and what was decided of them.

A request stands on `control.alarm`, the state of an alarm on `state.alarm` (key: the alarm's id;
the newest one per key is the state, with its history), the answer on `event.command`
(`bus.contracts.commands`). An alarm that nobody has touched has no state: it is open.
In/out: frozen structs, JSON with English keys. Never: the alarm itself (`bus.contracts.alarms`);
what may follow on what (`bus.domain.alarm_life`).
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import msgspec

from bus.contracts.commands import Command
from bus.contracts.topics import CONTROL_ALARM

AlarmStage = Literal["open", "taken", "assigned", "confirmed", "false", "closed"]
Verdict = Literal["", "confirmed", "false"]
AlarmOp = Literal["take", "assign", "confirm", "false", "comment", "close", "reopen"]
FalseReason = Literal["", "misread", "resembles", "outdated", "place", "other"]
"""Why an alarm is false: the plate was misread; it is another one that looks alike; the rule is out
of date; right target, wrong place or time; another reason, which the text says."""
AlarmResult = Literal["", "intercepted", "checked", "passed_on", "lost", "no_action"]
"""What came of an alarm: stopped; checked without finding; given to another office; the target got
away; nothing had to be done."""


class AlarmRequest(Command, frozen=True, kw_only=True):
    """`control.alarm`: take an alarm in hand, give it to an account, judge it, comment on it, end
    it.

    It counts when it was answered so on `event.command`. `at_ms`: when a person asked, where it
    is said later than that. `to`: of `assign`, the account. `why`: of `false`. `result`: of
    `close`. `seen_version` is the `n` of the state that the person saw: 0 where there was none, -1
    where it makes no difference.
    """

    TOPIC: ClassVar[str] = CONTROL_ALARM

    alarm_id: str
    op: AlarmOp
    at_ms: int = 0
    to: str = ""
    why: FalseReason = ""
    result: AlarmResult = ""
    text: str = ""

    @property
    def key(self) -> str:
        """See `Command.key`."""
        return self.alarm_id

    @property
    def who(self) -> str:
        """In whose name it is asked."""
        return self.account or self.issuer


class AlarmStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was done about an alarm: what, by whom, when, and which stage it led to."""

    op: AlarmOp
    by: str
    at_ms: int
    stage: AlarmStage
    to: str = ""
    why: FalseReason = ""
    result: AlarmResult = ""
    text: str = ""
    case: str = ""
    asked_at_ms: int = 0  # where it was said later than it was done


class AlarmState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state.alarm`: how far an alarm is in its life, and all that was done about it.

    Its version is (`epoch`, `n`): the site epoch in which it was decided, and a number that grows
    with every decision on the alarm; the larger pair counts. `owner` has it in hand. `verdict` is
    the last judgement, which a closed alarm keeps.
    """

    alarm_id: str
    stage: AlarmStage
    epoch: int
    n: int
    owner: str = ""
    since_ms: int = 0  # the stage is this one since then
    verdict: Verdict = ""
    why: FalseReason = ""
    result: AlarmResult = ""
    history: list[AlarmStep] = []
    command_id: str = ""  # of the last decision

    @property
    def version(self) -> tuple[int, int]:
        """The larger one counts."""
        return (self.epoch, self.n)

    @property
    def last_by(self) -> str:
        """Who has decided last."""
        return self.history[-1].by if self.history else ""

    @property
    def changed_at_ms(self) -> int:
        """When that was."""
        return self.history[-1].at_ms if self.history else self.since_ms

    @property
    def in_hand_since_ms(self) -> int:
        """Since when its owner has it."""
        given = [one.at_ms for one in self.history if one.op in ("take", "assign", "reopen")]
        return given[-1] if given else self.since_ms


class RuleVerdicts(NamedTuple):
    """How many alarms of a rule somebody has judged, and how many of these were false."""

    rule_id: str
    judged: int
    false: int
