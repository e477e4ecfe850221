"""Which judged alarms say how a plate was read.

In: stored alarms with their states. Out: `JudgedReading`s. Never: an alarm of a rule that no
misreading ever met: of its plates only right readings are seen; what a further candidate met; a
list's alarm, which its tolerance chose.
"""

from __future__ import annotations

from collections.abc import Iterator

from alarm.dispatch.reader import MAX_PAGE, OperationsReader
from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from bus.domain.confusion_fit import JudgedReading
from bus.domain.plates import is_doubtful, plate_form
from bus.domain.visibility import EVERYTHING
from ingest.store.port import PageRequest

_NOT_THE_PLATE = frozenset({"misread", "resembles"})
"""Reasons of a false alarm that are about the plate; others say that it was right, or nothing."""


def judged_readings(reader: OperationsReader) -> list[JudgedReading]:
    """The newest first. Raises `StoreError`."""
    misread_by: set[str] = set()
    found: list[tuple[str, JudgedReading]] = []
    for alarms in _pages(reader):
        misread_by.update(one.rule_id for one in alarms if one.misread is not None)
        states = reader.alarm_states([one.alarm_id for one in alarms])
        for alarm in alarms:
            reading = reading_of(alarm, states.get(alarm.alarm_id))
            if reading is not None:
                found.append((alarm.rule_id, reading))
    return [reading for rule_id, reading in found if rule_id in misread_by]


def _pages(reader: OperationsReader) -> Iterator[list[Alarm]]:
    cursor = ""
    while True:
        page = PageRequest(limit=MAX_PAGE, cursor=cursor)
        alarms, cursor = reader.alarms(page=page, viewer=EVERYTHING)
        yield alarms
        if not cursor:
            return


def reading_of(alarm: Alarm, state: AlarmState | None) -> JudgedReading | None:
    """None where nobody has judged it, or it says nothing of how its plate was read."""
    if state is None or not state.verdict or alarm.listed is not None:
        return None
    if state.verdict == "false" and state.why not in _NOT_THE_PLATE:
        return None
    read = plate_form(alarm.plate_number)
    misread = alarm.misread
    if not read or is_doubtful(read) or not alarm.target or (misread and misread.weight):
        return None
    plate = misread.plate if misread else alarm.target
    return JudgedReading(plate, read, state.verdict == "confirmed")
