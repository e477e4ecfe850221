"""What has been decided on alarms so far, from the topic that says it. Pure.

In: records of `state.alarm`. Out: of each alarm its state, with its history: the next decision
repeats it. Never: more than `MAX_ALARMS` of them by a decision.

A state is kept as it stands on the topic and read when it is asked for: most are never asked for
again, and reading all of every history would make a take-over too long.
"""

from __future__ import annotations

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.alarm_states import AlarmStage, AlarmState
from bus.domain.alarm_life import alarm_state, is_version, no_state

MAX_ALARMS = 200_000
"""As many keys as the mirror carries of one topic. What nobody has acted on has no state."""


class _StateVersion(msgspec.Struct):
    alarm_id: str
    stage: AlarmStage
    epoch: int
    n: int


_decode_version = msgspec.json.Decoder(_StateVersion).decode


class KnownAlarms:
    """Invariant: `_states` has of each alarm the value with the greatest version since its last
    tombstone."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, alarm_id: str) -> bool:
        return alarm_id in self._states

    def get(self, alarm_id: str) -> AlarmState:
        """`no_state` of one that nobody has acted on, or that was deleted."""
        found = self._states.get(alarm_id)
        return (None if found is None else alarm_state(found)) or no_state(alarm_id)

    def apply(self, record: ConsumedRecord) -> None:
        """The next one of `state.alarm`; what is not ours changes nothing."""
        if record.value is None:
            self._states.pop((record.key or b"").decode("utf-8", "replace"), None)
            return
        found = _version_of(record.value)
        if found is None:
            return
        known = self._states.get(found.alarm_id)
        if known is None or (_is_newer(found, known) and alarm_state(record.value)):
            self._states[found.alarm_id] = record.value


def _is_newer(found: _StateVersion, known: bytes) -> bool:
    before = _decode_version(known)
    return (before.epoch, before.n) <= (found.epoch, found.n)


def _version_of(value: bytes) -> _StateVersion | None:
    try:
        found = _decode_version(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if is_version(found.alarm_id, found.epoch, found.n) else None
