"""The state machine of an alarm. Pure; how requests are decided on is `machine`'s, the table of
stages and requests `bus.domain.alarm_life`'s.

Which alarms exist is not known here: the operations store knows it, the sender of a request has
asked there, and the store's recorder removes a state that belongs to no alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from alarm.decisions.known_alarms import MAX_ALARMS, KnownAlarms
from alarm.decisions.machine import DecidedState, NewestDecision
from alarm.decisions.requests import CommandRequest, check_lengths, decode_request
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.alarm_states import AlarmRequest, AlarmStage, AlarmState, AlarmStep, Verdict
from bus.contracts.command_codes import ALREADY_TAKEN
from bus.contracts.topics import CONTROL_ALARM, STATE_ALARM
from bus.domain.alarm_life import next_stage
from bus.domain.command_error import CommandError

MAX_REQUEST_BYTES = 16 * 1024
"""Its longest texts, every character escaped. A state repeats a hundred of them at most."""
LATE_MS = 2_000
MAX_LATE_MS = 30 * 86_400_000
"""What was done without a decider is said later, while it is kept; an older time is a wrong
clock's."""

_decode = msgspec.json.Decoder(AlarmRequest).decode


class AlarmMachine:
    """See `DecisionMachine`. `site_epoch`: how often the two sites have changed places, 0 before:
    it is asked for each decision."""

    requests_topic = CONTROL_ALARM
    state_topic = STATE_ALARM
    asked_topics: tuple[str, ...] = ()

    def __init__(self, site_epoch: Callable[[], int] = lambda: 0) -> None:
        self._site_epoch = site_epoch

    def make_state(self) -> KnownAlarms:
        """See `DecisionMachine.make_state`."""
        return KnownAlarms()

    def decode(self, record: ConsumedRecord, topic_id: str) -> CommandRequest[AlarmRequest]:
        """See `decode_request`."""
        return decode_request(record, topic_id, _decode)

    def names(self, request: CommandRequest[AlarmRequest]) -> Iterable[str]:
        """The alarm."""
        yield f"alarm {request.command.alarm_id}"

    def newest(
        self, request: CommandRequest[AlarmRequest], state: KnownAlarms, now_ms: int
    ) -> NewestDecision:
        """See `DecisionMachine.newest`. The refusal of a take says who has the alarm."""
        known = state.get(request.command.alarm_id)
        by, at_ms = known.last_by, known.changed_at_ms
        if request.command.op == "take" and known.owner:
            by, at_ms = known.owner, known.in_hand_since_ms
        return NewestDecision(known.n, known.command_id, by, at_ms, is_in_force=known.n > 0)

    def follow(
        self, request: CommandRequest[AlarmRequest], state: KnownAlarms, now_ms: int
    ) -> DecidedState:
        """See `DecisionMachine.follow`. A take by the owner is accepted and changes nothing: the
        alarm was taken where no decider was, and that is said again."""
        command = request.command
        check_lengths(request)
        if request.size > MAX_REQUEST_BYTES:
            text = f"a request has at most {MAX_REQUEST_BYTES} bytes"
            raise CommandError("", text, "too_large")
        known = state.get(command.alarm_id)
        try:
            stage = next_stage(known, command)
        except CommandError as error:
            if error.code == ALREADY_TAKEN and known.owner == command.who:
                return DecidedState(known.n, ())
            raise
        if command.alarm_id not in state and len(state) >= MAX_ALARMS:
            text = f"{MAX_ALARMS} alarms have a state: keep them for less long"
            raise CommandError("", f"{text} ([retention] alarms_days)", "full")
        decided = _decided(request, known, stage, self._site_epoch(), now_ms)
        record = KeyedValue(decided.alarm_id.encode(), msgspec.json.encode(decided))
        return DecidedState(decided.n, (record,))


def _decided(
    request: CommandRequest[AlarmRequest], known: AlarmState, stage: AlarmStage, epoch: int,
    now_ms: int,
) -> AlarmState:  # fmt: skip
    step = _step(request.command, stage, now_ms)
    return AlarmState(
        alarm_id=known.alarm_id,
        stage=stage,
        epoch=max(epoch, known.epoch),
        n=max(now_ms, known.n + 1),
        owner=_owner(known, step),
        since_ms=known.since_ms if stage == known.stage else now_ms,
        verdict=_verdict(known, step),
        why=known.why if step.op not in ("confirm", "false", "reopen") else step.why,
        result=known.result if step.op not in ("close", "reopen") else step.result,
        history=[*known.history, step],
        command_id=request.command_id,
    )


def _step(command: AlarmRequest, stage: AlarmStage, now_ms: int) -> AlarmStep:
    is_late = command.at_ms > 0 and LATE_MS < now_ms - command.at_ms <= MAX_LATE_MS
    return AlarmStep(
        op=command.op, by=command.who, at_ms=now_ms, stage=stage,
        to=command.to if command.op == "assign" else "",
        why=command.why if command.op == "false" else "",
        result=command.result if command.op == "close" else "",
        text=command.text, case=command.case, asked_at_ms=command.at_ms if is_late else 0,
    )  # fmt: skip


def _owner(known: AlarmState, step: AlarmStep) -> str:
    if step.op == "assign":
        return step.to
    return step.by if step.op in ("take", "reopen") else known.owner


def _verdict(known: AlarmState, step: AlarmStep) -> Verdict:
    if step.op == "confirm":
        return "confirmed"
    if step.op == "false":
        return "false"
    return "" if step.op == "reopen" else known.verdict
