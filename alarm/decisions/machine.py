"""How a request becomes at most one decision and exactly one answer, of whatever kind. Pure.

In: a request, what is known, the time. Out: `Decided`, which changes nothing by itself: only what
was recorded is applied. Never: I/O, a clock; a second answer to a command id that says something
else. What is particular to rules, lists and alarms is their `DecisionMachine`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.requests import MAX_ID_CHARACTERS, CommandRequest, CommandT
from bus.client.compacted_state import TopicState
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.command_codes import BY_SOMEBODY, NOT_PRIMARY, STALE
from bus.contracts.commands import ANY_VERSION, CommandAnswer
from bus.domain.command_error import CommandError

MAX_TEXT_CHARACTERS = 1_000  # of a refusal, which repeats what was asked for
_MIRRORS = "this site mirrors another one: ask there"
_SITE_CHANGED = (
    "the site has changed since it was asked for, and nobody has decided on it: ask the other one"
)

StateT = TypeVar("StateT", bound=TopicState)


class NewestDecision(NamedTuple):
    """On what a request concerns. `is_in_force`: a version that people see; of what ended they see
    none."""

    version: int
    command_id: str
    decided_by: str
    decided_at_ms: int
    is_in_force: bool
    waits: bool = False  # for an approval


class DecidedState(NamedTuple):
    """What a request makes of it: records of the topic of states, in their order. One of them is
    the decision, and has the command's id: what stands before it is put there again after a crash,
    what stands behind it may be missing then."""

    version: int
    records: tuple[KeyedValue, ...]
    waits: bool = False  # for an approval


class Decided(NamedTuple):
    """What follows from a request: recorded first, answered then. Neither: it was answered."""

    records: tuple[KeyedValue, ...]
    answer: CommandAnswer | None


class DecisionMachine(Protocol[CommandT, StateT]):
    """What may become of one kind of thing. It keeps nothing."""

    requests_topic: str
    state_topic: str
    asked_topics: tuple[str, ...]
    """Of other machines' states, those that a decision looks at."""

    def make_state(self) -> StateT:
        """Of `state_topic`, nothing of which is read yet."""

    def decode(self, record: ConsumedRecord, topic_id: str) -> CommandRequest[CommandT]:
        """See `decode_request`."""

    def names(self, request: CommandRequest[CommandT]) -> Iterable[str]:
        """What it concerns: of requests with a name in common the second is decided when the
        decision on the first is known."""

    def newest(
        self, request: CommandRequest[CommandT], state: StateT, now_ms: int
    ) -> NewestDecision:
        """On what it concerns."""

    def follow(
        self, request: CommandRequest[CommandT], state: StateT, now_ms: int
    ) -> DecidedState:
        """Raises `CommandError` where it is refused. The version that was seen is looked at
        already."""


def decide(
    machine: DecisionMachine[CommandT, StateT],
    request: CommandRequest[CommandT],
    state: StateT,
    answered: AnsweredCommands,
    now_ms: int,
    *,
    is_primary: bool,
    site_changed_ms: int = 0,
) -> Decided:
    """Decide on one request. At a site whose data are another's it is refused: that one decides.
    `site_changed_ms`: when it became such a site; what was asked before is decided nowhere."""
    before = answered.get(request.command_id)
    if before is not None:  # what comes again as another record is answered again
        is_same = (before.topic, before.offset) == (request.topic, request.offset)
        return Decided((), None if is_same else before)
    newest = machine.newest(request, state, now_ms)
    if newest.command_id and newest.command_id == request.command_id:  # recorded, not yet answered
        answer = _accepted(request, newest.version, now_ms, waits=newest.waits)
        return Decided((), answer)
    try:
        if not is_primary:
            is_older = request.asked_at_ms <= site_changed_ms
            raise CommandError("", _SITE_CHANGED if is_older else _MIRRORS, NOT_PRIMARY)
        present = newest.version if newest.is_in_force else 0
        if request.command.seen_version not in (ANY_VERSION, present):
            raise CommandError("seen_version", "it was changed since it was read", STALE)
        following = machine.follow(request, state, now_ms)
    except CommandError as error:
        return Decided((), _refused(request, newest, error, now_ms))
    answer = _accepted(request, following.version, now_ms, waits=following.waits)
    return Decided(following.records, answer)


def _accepted(
    request: CommandRequest[CommandT], version: int, now_ms: int, *, waits: bool
) -> CommandAnswer:
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.key, state="proposed" if waits else "accepted", version=version,
        answered_at_ms=now_ms,
    )  # fmt: skip


def _refused(
    request: CommandRequest[CommandT], newest: NewestDecision, error: CommandError, now_ms: int
) -> CommandAnswer:
    is_told = error.code in BY_SOMEBODY
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.key[:MAX_ID_CHARACTERS], state="refused", code=error.code,
        field=error.field[:MAX_ID_CHARACTERS], text=str(error)[:MAX_TEXT_CHARACTERS],
        version=newest.version if is_told and newest.is_in_force else 0,
        changed_by=newest.decided_by if is_told else "",
        changed_at_ms=newest.decided_at_ms if is_told else 0, answered_at_ms=now_ms,
    )  # fmt: skip
