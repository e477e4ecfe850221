"""What an operator does about an alarm, for the API and for pages: asked of the site's decider.

In: a request. Out: what became of it, and the state of the alarm. Never: an alarm that nobody can
take because bus or decider is away: after `TAKE_S` it is taken in the file of acknowledgements, and
the dispatcher says it on the bus later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from bus.client.kafka.command_client import new_command_id
from bus.contracts.alarm_states import AlarmRequest, AlarmState, AlarmStep, RuleVerdicts
from bus.contracts.alarms import Alarm
from bus.contracts.command_codes import IS_CLOSED, NO_SUCH_ALARM, NOT_VISIBLE
from bus.domain.alarm_life import check_request, is_over, no_state
from bus.domain.command_error import CommandError
from bus.domain.visibility import EVERYTHING, Viewer, may_see
from bus.runtime.wall_clock import now_ms
from monitor.accounts.errors import AccountsUnavailable
from monitor.api.incidents import acknowledged
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices
from monitor.live.command_sender import CommandNotAcknowledged, CommandUnanswered

ISSUER = "console"
TAKE_S = 2.0
"""How long a person who takes an alarm waits for the decider."""
STORED_S = 1.0
"""How long the answer waits for the store to have what was decided."""
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """`accepted` by the decider, or `taken_here` while there is none. `state` is as of the store,
    which may be a moment behind."""

    outcome: Literal["accepted", "taken_here"]
    state: AlarmState


class AlarmConflict(Exception):
    """Somebody else has it in hand, as this site's file says."""

    def __init__(self, state: AlarmState) -> None:
        super().__init__("somebody has it in hand")
        self.state = state


async def ask(
    services: ConsoleServices, viewer: Viewer, request: AlarmRequest
) -> RequestOutcome:
    """Ask the decider, with a new id; an alarm that `viewer` does not see is none. Raises
    `CommandError` for what cannot be asked, `AlarmConflict`, `QueryUnavailable`, and what
    `CommandSender.send` does."""
    asked = msgspec.structs.replace(
        request, issuer=ISSUER, command_id=new_command_id(), at_ms=now_ms()
    )
    check_request(asked)
    try:
        await _check_alarm(services, viewer, asked)
    except QueryUnavailable:
        if asked.op != "take":
            raise
        if services.live_for(viewer).is_known_hidden(asked.alarm_id):
            raise _no_such_alarm() from None
    if asked.op != "take":
        answer = await services.commands.send(asked)
        return RequestOutcome("accepted", await _stored(services, asked.alarm_id, answer.version))
    try:
        answer = await asyncio.wait_for(services.commands.send(asked), TAKE_S)
    except (TimeoutError, CommandNotAcknowledged, CommandUnanswered):
        return RequestOutcome("taken_here", await _take_here(services, asked))
    return RequestOutcome("accepted", await _stored(services, asked.alarm_id, answer.version))


async def states_of(
    services: ConsoleServices, ids: Sequence[str]
) -> Mapping[str, AlarmState]:
    """Of each alarm its state, also of what nobody has touched, and of what was taken a moment ago
    and is only in the file. Raises `QueryUnavailable`."""
    found = await services.alarms.run(lambda r: r.alarm_states(ids)) if ids else {}
    who = await acknowledged(services) if len(found) < len(ids) else {}
    return {
        one: found.get(one) or (_taken(one, who[one], 0) if one in who else no_state(one))
        for one in ids
    }


async def state_of(services: ConsoleServices, alarm_id: str) -> AlarmState:
    """Of one. Raises `QueryUnavailable`."""
    return (await states_of(services, [alarm_id]))[alarm_id]


async def verdicts_by_rule(services: ConsoleServices) -> Mapping[str, RuleVerdicts]:
    """Empty while the store is away: the watch list is shown without."""
    try:
        found = await services.alarms.run(lambda r: r.verdicts())
    except QueryUnavailable:
        return {}
    return {one.rule_id: one for one in found}


def _no_such_alarm() -> CommandError:
    return CommandError("alarm_id", "no such alarm", NO_SUCH_ALARM)


async def _check_alarm(services: ConsoleServices, viewer: Viewer, request: AlarmRequest) -> None:
    """Raises `CommandError` where there is none, its life is over, or who is to have it would not
    see it."""
    alarm = await services.alarms.run(lambda r: r.alarm(request.alarm_id, viewer=viewer))
    if alarm is None:
        raise _no_such_alarm()
    if request.op == "assign":
        await _check_new_owner(services, request.to, alarm)
    found = await services.alarms.run(lambda r: r.alarm_states([request.alarm_id]))
    state = found.get(request.alarm_id)
    if state is not None and is_over(state, now_ms()):
        raise CommandError("op", "nobody has touched it for so long that it is over", IS_CLOSED)


async def is_hidden_alarm(services: ConsoleServices, viewer: Viewer, alarm_id: str) -> bool:
    """Whether there is such an alarm, and he does not see it."""
    if services.live_for(viewer).is_known_hidden(alarm_id):
        return True
    try:
        found = await services.alarms.run(lambda r: r.alarm(alarm_id, viewer=EVERYTHING))
    except QueryUnavailable:
        return False
    return found is not None and not may_see(viewer, found.visible_to)


async def _check_new_owner(services: ConsoleServices, name: str, alarm: Alarm) -> None:
    """Raises `CommandError`. A name without an account is let pass, as it always was."""
    try:
        account = await asyncio.to_thread(services.account_store.find, name)
    except AccountsUnavailable:
        return
    if account is not None and not may_see(account.principal().viewer, alarm.visible_to):
        raise CommandError("to", "this account does not see the alarm", NOT_VISIBLE)


async def _stored(services: ConsoleServices, alarm_id: str, version: int) -> AlarmState:
    """As the store has it, once it has this version; after `STORED_S` as it is."""
    until_s = time.monotonic() + STORED_S
    while True:
        try:
            state = await state_of(services, alarm_id)
        except QueryUnavailable:
            state = no_state(alarm_id)
        if state.n >= version or time.monotonic() >= until_s:
            return state
        await asyncio.sleep(LOOK_S)


async def _take_here(services: ConsoleServices, request: AlarmRequest) -> AlarmState:
    """Raises `AlarmConflict`; `AcknowledgementsUnavailable` where the file cannot be written."""
    try:
        known = await state_of(services, request.alarm_id)
    except QueryUnavailable:
        known = no_state(request.alarm_id)
    if known.owner and known.owner != request.who:
        raise AlarmConflict(known)
    add = services.acknowledgements.add
    by = await asyncio.to_thread(add, request.alarm_id, request.who, request.at_ms)
    if by != request.who:
        raise AlarmConflict(_taken(request.alarm_id, by, 0))
    return _taken(request.alarm_id, by, request.at_ms)


def _taken(alarm_id: str, by: str, at_ms: int) -> AlarmState:
    """As the file of acknowledgements says; 0: since when is not asked."""
    step = AlarmStep(op="take", by=by, at_ms=at_ms, stage="taken")
    return AlarmState(
        alarm_id=alarm_id, stage="taken", epoch=0, n=0, owner=by, since_ms=at_ms, history=[step]
    )

