"""`event.alarm`, as the one who decides knows it: what stands on it, and how more is put there; how
`event.suppressed` gets what its alarms stand for.

An alarm counts as raised when the brokers have acknowledged it. One whose acknowledgement did not
come may stand on the topic all the same: whoever goes on reads the topic to its end first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial

import msgspec

from alarm.dispatch.leased_producer import LeasedProducer
from alarm.dispatch.quiet_times import RaisedAlarm
from alarm.dispatch.raised_alarms import NewAlarms, RaisedAlarms, repeated_ms
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import offsets_since
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, RecordMetadata
from bus.client.kafka.topic_reader import TopicReader
from bus.client.model import ConsumedRecord, KeyedValue
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.alarms import Alarm, Suppressed
from bus.contracts.topics import (
    DATA_TOPICS,
    DAY_MS,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_SUPPRESSED,
)
from bus.errors import BusError, ErrorCode
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

NEVER_TAKEN = frozenset({
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
})  # fmt: skip
"""Sent again, such an alarm would be refused again, and hold up all that follow."""


def remembered_ms(bus: BusSettings, client_id: str) -> int:
    """By the topics' own retentions, which an operator may have changed; a warning where
    `event.alarm` forgets an alarm whose candidate may come again."""
    retention_ms: dict[str, int] = {}
    try:
        with closing(Admin(bus, client_id=f"{client_id}-configs")) as admin:
            there = set(admin.topic_names())
            for name in {EVENT_CANDIDATE, EVENT_ALARM, *DATA_TOPICS} & there:
                retention_ms[name] = int(admin.topic_configs(name, defaults=True)["retention.ms"])
    except (BusError, KeyError, ValueError) as error:
        log.warning("retentions are taken as topics are made, the bus does not say: %s", error)
    wanted_ms, alarm_ms = repeated_ms(retention_ms), retention_ms.get(EVENT_ALARM, -1)
    if 0 <= alarm_ms < wanted_ms:
        log.warning(
            "%s keeps %.1f days, but a candidate may come again for %.1f: such an alarm is raised "
            "twice; set retention.ms of %s to %d at least",
            EVENT_ALARM, alarm_ms / DAY_MS, wanted_ms / DAY_MS, EVENT_ALARM, wanted_ms,
        )  # fmt: skip
    return wanted_ms


class AlarmTopic:
    """One thread at a time. Invariant: `_raised` holds what was read and what was acknowledged."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        client_id: str,
        stopping: threading.Event,
    ) -> None:
        self.refused: set[str] = set()
        """Ids that the topic did not take, of the last `publish`: they stand for no other."""
        known_ms = remembered_ms(bus, client_id)
        self._raised = RaisedAlarms(remembered_ms=known_ms)
        self._producer = LeasedProducer(bus, client_id, site.name)
        since_ms = max(0, wall_clock.now_ms() - known_ms)
        self._reader = TopicReader(
            bus, [EVENT_ALARM], partial(offsets_since, timestamp_ms=since_ms),
            client_id=f"{client_id}-alarms",
            leaders=PartitionLeaders(bus, f"{client_id}-alarms-ends"),
            overrides=FOLLOWS_LEADERS, stopping=stopping,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many alarms are remembered."""
        return len(self._raised)

    def catch_up(self) -> None:
        """Learn all that others have put there. Raises `CatchUpTimeout`."""
        self._learn(self._reader.read_to_end())

    def read_what_came(self) -> None:
        """Learn what has come in the meantime; waits for nobody."""
        self._learn(self._reader.read_what_came())

    def _learn(self, records: Iterable[ConsumedRecord]) -> None:
        now_ms = wall_clock.now_ms()
        for record in records:
            alarm = _alarm(record)
            if alarm is not None:  # a time that is missing or to come counts as now
                at_ms = record.timestamp_ms if 0 < record.timestamp_ms < now_ms else now_ms
                self._raised.add(alarm, at_ms, record.offset)
        if given_up := self._raised.forget(now_ms):
            log.error(
                "%d alarms are no longer remembered, there are too many: repeated candidates may "
                "raise them again; a rule that matches nearly every record belongs off the list",
                given_up,
            )
        if given_up := self._raised.forget_passages():
            log.error(
                "%d alarms count no longer for quiet times, there are too many: a late record of "
                "such a target raises an alarm of its own", given_up,
            )  # fmt: skip

    def new_of(
        self,
        alarms: Sequence[Alarm],
        quiet_ms: Mapping[str, int],
        refused: Collection[str] = (),
    ) -> NewAlarms:
        """See `RaisedAlarms.new_of`."""
        return self._raised.new_of(alarms, quiet_ms, refused)

    def publish(self, alarms: Sequence[Alarm], until_s: float) -> bool:
        """Put them there, in their order; whether all are acknowledged. Sends nothing after
        `until_s` of the monotonic clock. What is not acknowledged may be there all the same:
        `catch_up` before the next attempt."""
        reports = self._producer.send(EVENT_ALARM, _keyed(alarms), until_s, NEVER_TAKEN)
        now_ms = wall_clock.now_ms()
        self.refused = set()
        is_settled = True
        for number, alarm in enumerate(alarms):
            report = reports.get(number)
            if isinstance(report, RecordMetadata):
                self._raised.add(alarm, now_ms, report.offset)
            elif _is_refused(report):
                self.refused.add(alarm.alarm_id)
            is_settled &= _is_settled(f"alarm {alarm.alarm_id}", report)
        return is_settled

    def publish_suppressed(self, messages: Sequence[Suppressed], until_s: float) -> bool:
        """What these alarms stand for; as `publish`."""
        reports = self._producer.send(EVENT_SUPPRESSED, _keyed(messages), until_s, NEVER_TAKEN)
        is_settled = True
        for number, one in enumerate(messages):
            is_settled &= _is_settled(f"a passage of {one.alarm_id}", reports.get(number))
        return is_settled

    def close(self) -> None:
        """Leave; nothing is on its way between two calls of `publish`."""
        self._producer.close()
        self._reader.close()


def _keyed(messages: Sequence[Alarm | Suppressed]) -> list[KeyedValue]:
    return [KeyedValue(one.rule_id.encode(), msgspec.json.encode(one)) for one in messages]


def _is_refused(report: DeliveryReport | None) -> bool:
    """For ever."""
    return isinstance(report, DeliveryError) and report.code in NEVER_TAKEN


def _is_settled(what: str, report: DeliveryReport | None) -> bool:
    if isinstance(report, RecordMetadata):
        return True
    if _is_refused(report):
        log.error("%s is not published: %s", what[:200], report)
        return True
    log.warning("%s waits for the bus: %s", what[:200], report or "not sent")
    return False


def _alarm(record: ConsumedRecord) -> RaisedAlarm | None:
    """None where somebody else put something there that is no alarm."""
    try:
        return msgspec.json.decode(record.value or b"", type=RaisedAlarm)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
