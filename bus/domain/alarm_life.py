"""The life of an alarm: what may follow on what, and what each request has to say. Pure.

In: a state, a request, who asks. Out: the next stage, or `CommandError`. Never: who may ask at
all (the console's roles); I/O, a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast, get_args

import msgspec

from bus.contracts.alarm_states import (
    AlarmOp,
    AlarmRequest,
    AlarmResult,
    AlarmStage,
    AlarmState,
    FalseReason,
    RuleVerdicts,
)
from bus.contracts.command_codes import (
    ALREADY_TAKEN,
    IS_CLOSED,
    NO_SUCH_ALARM,
    NOT_CLOSED,
    NOT_JUDGED,
    NOT_TAKEN,
    OTHER_STAGE,
)
from bus.contracts.site_epoch import MAX_NUMBER
from bus.domain.command_error import CommandError, check_length

STAGES: tuple[AlarmStage, ...] = get_args(AlarmStage)
OPS: tuple[AlarmOp, ...] = get_args(AlarmOp)
FALSE_REASONS: tuple[str, ...] = tuple(filter(None, get_args(FalseReason)))
RESULTS: tuple[str, ...] = tuple(filter(None, get_args(AlarmResult)))

STATE_DAYS = 90
STATE_MS = STATE_DAYS * 86_400_000
MAX_ID_CHARACTERS = 1_000
"""Of an alarm's id: a rule's and a record's."""
MAX_NAME_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 500
MAX_COMMENTS = 50
MAX_STEPS = 100
"""Of one alarm; the last of them is left for closing it."""

ENOUGH_JUDGED = 10
MOST_FALSE_SHARE = 0.3
_decode_state = msgspec.json.Decoder(AlarmState).decode

_STAYS = ""
_ENDED: dict[AlarmOp, str] = dict.fromkeys(OPS, IS_CLOSED)

_JUDGED: dict[AlarmOp, str] = {
    "take": ALREADY_TAKEN, "assign": _STAYS, "confirm": "confirmed", "false": "false",
    "comment": _STAYS, "close": "closed", "reopen": NOT_CLOSED,
}  # fmt: skip
_ROWS: dict[AlarmStage, dict[AlarmOp, str]] = {
    "open": {
        "take": "taken", "assign": "assigned", "confirm": NOT_TAKEN, "false": NOT_TAKEN,
        "comment": _STAYS, "close": NOT_TAKEN, "reopen": NOT_CLOSED,
    },
    "taken": {
        "take": ALREADY_TAKEN, "assign": "assigned", "confirm": "confirmed", "false": "false",
        "comment": _STAYS, "close": NOT_JUDGED, "reopen": NOT_CLOSED,
    },
    "assigned": {
        "take": "taken", "assign": "assigned", "confirm": "confirmed", "false": "false",
        "comment": _STAYS, "close": NOT_JUDGED, "reopen": NOT_CLOSED,
    },
    "confirmed": _JUDGED,
    "false": _JUDGED,
    "closed": {**_ENDED, "comment": _STAYS, "reopen": "taken"},
}  # fmt: skip
TRANSITIONS: Mapping[tuple[AlarmStage, AlarmOp], str] = MappingProxyType({
    (stage, op): _ROWS[stage][op] or stage for stage in STAGES for op in OPS
})  # fmt: skip
"""A stage and what is asked for: the next stage, or the reason of the refusal. An assigned alarm is
taken by its owner alone (`next_stage`)."""
_TEXTS = {
    ALREADY_TAKEN: "somebody has it in hand",
    NOT_TAKEN: "nobody has it in hand yet: take it first",
    NOT_JUDGED: "it is neither confirmed nor false yet: say which, then close it",
    IS_CLOSED: "it is closed: reopen it first",
    NOT_CLOSED: "it is not closed",
}


def allowed_ops(stage: AlarmStage, owner: str, account: str) -> tuple[AlarmOp, ...]:
    """What may be asked for of an alarm in this stage, by this account."""
    return tuple(
        op for op in OPS
        if TRANSITIONS[stage, op] not in OTHER_STAGE
        if op != "take" or stage == "open" or owner == account
    )  # fmt: skip


def no_state(alarm_id: str) -> AlarmState:
    """Of an alarm that nobody has touched."""
    return AlarmState(alarm_id=alarm_id, stage="open", epoch=0, n=0)


def is_often_false(verdicts: RuleVerdicts) -> bool:
    """Whether a rule is to be narrowed: of enough judged alarms too many were false."""
    is_enough = verdicts.judged >= ENOUGH_JUDGED
    return is_enough and verdicts.false >= MOST_FALSE_SHARE * verdicts.judged


def is_over(state: AlarmState, now_ms: int) -> bool:
    """Whether nobody has touched it for `STATE_DAYS`: its state leaves the bus then, and stays as
    it is."""
    return 0 < state.changed_at_ms < now_ms - STATE_MS


def alarm_state(value: bytes) -> AlarmState | None:
    """What a record of `state.alarm` says; None of what is not ours."""
    try:
        found = _decode_state(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if is_version(found.alarm_id, found.epoch, found.n) else None


def is_version(alarm_id: str, epoch: int, n: int) -> bool:
    """Whether a state of ours has such a version."""
    return 0 <= epoch <= MAX_NUMBER and 0 < n < 1 << 53 and is_alarm_id(alarm_id)


def is_alarm_id(text: str) -> bool:
    """Whether it can be one: a rule's id, a colon, a record's id."""
    rule, colon, record = text.partition(":")
    return bool(rule and colon and record) and len(text) <= MAX_ID_CHARACTERS


def next_stage(state: AlarmState, request: AlarmRequest) -> AlarmStage:
    """Raises `CommandError`."""
    check_request(request)
    following = TRANSITIONS[state.stage, request.op]
    if request.op == "take" and state.stage == "assigned" and state.owner != request.who:
        following = ALREADY_TAKEN
    if following in OTHER_STAGE:
        raise CommandError("op", _TEXTS[following], following)
    _check_room(state, request)
    return cast(AlarmStage, following)


def _check_room(state: AlarmState, request: AlarmRequest) -> None:
    comments = sum(1 for step in state.history if step.op == "comment")
    is_full = len(state.history) >= MAX_STEPS - (request.op != "close")
    if is_full or (request.op == "comment" and comments >= MAX_COMMENTS):
        raise CommandError(
            "op", f"an alarm has at most {MAX_COMMENTS} comments and {MAX_STEPS} steps in all",
            "full",
        )  # fmt: skip


def check_request(request: AlarmRequest) -> None:
    """What it says must be complete, whatever the state. Raises `CommandError`."""
    if not is_alarm_id(request.alarm_id):
        raise CommandError("alarm_id", "no alarm has such an id", NO_SUCH_ALARM)
    for field, limit in {"to": MAX_NAME_CHARACTERS, "text": MAX_TEXT_CHARACTERS}.items():
        check_length(field, getattr(request, field), limit)
    if not (request.account or request.issuer):
        raise CommandError("account", "a request says who asks", "nobody")
    if request.op == "assign" and not request.to.strip():
        raise CommandError("to", "say to which account", "no_account")
    if request.op == "false" and not request.why:
        raise CommandError("why", f"one of {', '.join(FALSE_REASONS)}", "no_reason")
    if request.op == "false" and request.why == "other" and not request.text.strip():
        raise CommandError("text", "say what the other reason is", "no_text")
    if request.op == "comment" and not request.text.strip():
        raise CommandError("text", "a comment says something", "no_text")
    if request.op == "close" and not request.result:
        raise CommandError("result", f"one of {', '.join(RESULTS)}", "no_result")
