"""What the recorder says about the life of alarms: who took one while no decider was there, states
that their topic lacks, tombstones of deleted alarms.

In: the operations store. Out: requests on `control.alarm`, states and tombstones on `state.alarm`,
each until the brokers have it. Never: a state before the topic is read to its end; a request at a
site whose data are another's; a wait for brokers that are away.
"""

from __future__ import annotations

import hashlib
import time

import msgspec

from alarm.dispatch.operations import OperationsStore
from alarm.dispatch.published_events import PublishedEvents, StateTombstone
from bus.contracts.alarm_states import AlarmRequest, AlarmState
from bus.contracts.alarms import Acknowledged

PUBLISH_EVERY_S = 1.0
AT_ONCE = 500
ISSUER = "taken without a decider"


class AlarmStateEvents:
    """One thread, for the life of a recorder."""

    def __init__(self) -> None:
        self._due_at_s = 0.0
        self._asked: dict[str, AlarmState] = {}

    def publish_due(
        self, operations: OperationsStore, events: PublishedEvents, *, is_at_end: bool,
        is_primary: bool,
    ) -> None:  # fmt: skip
        """What is due goes out once a second; what the brokers have acknowledged is noted."""
        table = operations.alarm_states
        table.mark_published(
            [state for one in events.alarm_requests.take_acknowledged()
             if (state := self._asked.pop(one.alarm_id, None)) is not None]
        )  # fmt: skip
        table.mark_published(events.alarm_states.take_acknowledged())
        table.mark_deleted(one.alarm_id for one in events.alarm_tombstones.take_acknowledged())
        if not is_at_end or time.monotonic() < self._due_at_s:
            return
        self._due_at_s = time.monotonic() + PUBLISH_EVERY_S
        events.alarm_states.send((one.alarm_id, one) for one in table.unpublished_states(AT_ONCE))
        events.alarm_tombstones.send(
            (one, StateTombstone(one)) for one in table.deleted(AT_ONCE)
        )
        if is_primary:
            taken = {one.alarm_id: one for one in table.unpublished_takes(AT_ONCE)}
            self._asked = taken | self._asked
            events.alarm_requests.send(
                (one.alarm_id, take_request(one)) for one in self._asked.values()
            )


def take_request(taken: AlarmState) -> AlarmRequest:
    """Of the account that took it. Its id follows from that alone: repeats are one request."""
    named = msgspec.json.encode([taken.alarm_id, taken.owner, taken.since_ms])
    return AlarmRequest(
        alarm_id=taken.alarm_id, op="take", at_ms=taken.since_ms, account=taken.owner,
        issuer=ISSUER, command_id=hashlib.blake2b(named, digest_size=16).hexdigest(),
    )  # fmt: skip


def acknowledgement_of(state: AlarmState | None) -> Acknowledged | None:
    """An alarm that somebody has in hand is acknowledged: it does not escalate any further."""
    if state is None or not state.owner:
        return None
    return Acknowledged(id=state.alarm_id, by_whom=state.owner, at_ms=state.in_hand_since_ms)
