"""The topics of the bus: the one table of names, partition counts, keys and retentions, with the
reasons.

In: nothing. Out: `TOPICS`, and what a creator of topics needs (`Topic.configs`).
Never: a client, a socket. Rows I-1 and I-2 of docs/from_the_seeds.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DAY_MS = 24 * 3600 * 1000
# Spark computes in microseconds and gives up a whole topic for one time that overflows in them;
# the broker refuses such a record to its sender. The other way there is its own bound of an hour.
OLDEST_MS = 200 * 365 * DAY_MS

DATA_VEHICLE = "data.vehicle"
DATA_FACE = "data.face"
DATA_VIDEO = "data.video"
DATA_VIDEO_SEGMENT = "data.video-segment"
CONTROL_WATCHLIST = "control.watchlist"
CONTROL_LISTS = "control.lists"
CONTROL_ALARM = "control.alarm"
CONTROL_REGISTER = "control.register"
CONTROL_STATISTICS = "control.statistics"
CONTROL_VIDEO = "control.video"
CONTROL_ACCOUNTS = "control.accounts"
CONTROL_MIRROR_CONFIRMED = "control.mirror-confirmed"
CONTROL_MIRROR_TAILS = "control.mirror-tails"
STATE_WATCHLIST = "state.watchlist"
STATE_LISTS = "state.lists"
STATE_ALARM = "state.alarm"
EVENT_CANDIDATE = "event.candidate"
EVENT_ALARM = "event.alarm"
EVENT_SUPPRESSED = "event.suppressed"
EVENT_STATISTICS = "event.statistics"
EVENT_INCIDENT = "event.incident"
EVENT_NOTIFIED = "event.notified"
EVENT_ACKNOWLEDGED = "event.acknowledged"
EVENT_VIDEO_PROGRESS = "event.video-progress"
EVENT_COMMAND = "event.command"
METER_SENT = "meter.sent"
METER_ARRIVED = "meter.arrived"
METER_LATENCY = "meter.latency"
METER_QUALITY = "meter.quality"
QUARANTINE_RECORDS = "quarantine.records"


class Flow(Enum):
    """What kind of flow a topic carries; disaster recovery copies only `DATA` (W-5, D-2)."""

    DATA = "data"
    CONTROL = "control"
    STATE = "state"
    EVENT = "event"
    METER = "meter"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class LiveKeys:
    """What of a compacted topic stays when it is cleaned: a record for each of these keys.

    `bound`: what keeps their number from growing for ever. `removed_by`: who writes a key's
    tombstone, and when. `repaired_ms`: so long a record stays although its key has a later one
    (`min.compaction.lag.ms`): readers go by the version in a value, a cleaner by the offset, and
    whoever repairs the order has that time.
    """

    what: str
    bound: str
    removed_by: str
    repaired_ms: int = 0


COMPACTED_SEGMENT_BYTES = 4 << 20
"""A cleaner leaves the active segment alone, so that a table is never smaller than that."""
LONGEST_UNCLEANED_MS = DAY_MS
"""By the share of a table that is out of date alone it would grow to twice what lives in it, and
every start that reads it with it."""
ADDED_KEYS = ("segment.bytes", "min.compaction.lag.ms", "max.compaction.lag.ms")
"""Of `Topic.configs`, what topics of an earlier version lack: it is set where nothing is."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The contract of one topic.

    `schema` is the value of the `schema` header (`vehicle/1`); `retention_ms` -1 keeps for ever;
    `segment_ms` 0: as the brokers say. `is_timed_by_broker`: a record's time is when it was
    appended, whatever its sender's clock says.
    """

    name: str
    flow: Flow
    schema: str
    key: str
    partitions: int
    partitions_why: str
    retention_ms: int
    retention_why: str
    live_keys: LiveKeys | None = None
    segment_ms: int = 0
    is_timed_by_broker: bool = False

    @property
    def compacted(self) -> bool:
        """Whether the newest record of each key stays."""
        return self.live_keys is not None

    @property
    def configs(self) -> dict[str, str]:
        """Topic configuration in Kafka's own names. A compacted topic with a retention is also cut
        by age."""
        policies = ["compact"] if self.compacted else []
        if not self.compacted or self.retention_ms >= 0:
            policies.append("delete")
        found = {
            "cleanup.policy": ",".join(policies),
            "retention.ms": str(self.retention_ms),
            "message.timestamp.before.max.ms": str(OLDEST_MS),
        }
        if self.live_keys is not None:
            found["segment.bytes"] = str(COMPACTED_SEGMENT_BYTES)
            longest_ms = max(LONGEST_UNCLEANED_MS, self.live_keys.repaired_ms)
            found["max.compaction.lag.ms"] = str(longest_ms)
            if self.live_keys.repaired_ms:
                found["min.compaction.lag.ms"] = str(self.live_keys.repaired_ms)
        if self.is_timed_by_broker:
            found["message.timestamp.type"] = "LogAppendTime"
        return found | ({"segment.ms": str(self.segment_ms)} if self.segment_ms else {})


_ONE = "a trickle; one partition keeps the total order"
_STATE = "the newest command per key is the state, so it is compacted and never cut by age"
_DAY = "replayable for a day; the store is the archive"
_REMOVED = "[retention] removed_days"
_BY_TABLE_CLEANUP = (
    f"the site's recorder, {_REMOVED} after its removal, once the topic's version floor is above it"
)


def _commands(what: str) -> LiveKeys:
    """A table that people change; a removal is a value for a while."""
    return LiveKeys(
        what,
        f"what is in force and what was removed within {_REMOVED}, 400 of them; the mirror carries "
        "200,000 keys at most and says so",
        _BY_TABLE_CLEANUP,
        DAY_MS,
    )


_NO_ORDERS = LiveKeys(
    "an order each", "none is written by this version", "whoever will write orders", DAY_MS
)

_ALL = (
    Topic(DATA_VEHICLE, Flow.DATA, "vehicle/1", "the plate; null where unread", 4,
          "the widest flow: two Spark slots per core on the smallest machine, few enough that a "
          "micro-batch of 0.2 s is not eaten by task starts",
          7 * DAY_MS, "a week of outage of the store must not lose a record"),
    Topic(DATA_FACE, Flow.DATA, "face/1", "the device", 2,
          "about a fifth of the vehicle flow", 7 * DAY_MS, "as data.vehicle"),
    Topic(DATA_VIDEO, Flow.DATA, "video/1", "the device", 2,
          "bursts from films under analysis", 7 * DAY_MS, "as data.vehicle"),
    Topic(DATA_VIDEO_SEGMENT, Flow.DATA, "video-segment/1", "the device", 2,
          "a message every ten seconds of each camera that is recorded; the order of a camera's "
          "segments is kept", 7 * DAY_MS, "as data.vehicle"),
    Topic(CONTROL_WATCHLIST, Flow.CONTROL, "watchlist/1", "the rule id", 1,
          "requests are decided in the order of their log", 30 * DAY_MS,
          "who asked for what is kept as long as the answer"),
    Topic(STATE_WATCHLIST, Flow.STATE, "watch-rule/1", "the rule id", 1, _ONE, -1,
          "the newest decision per key is the state, so it is compacted and never cut by age",
          _commands("a rule each, and one for the version floor")),
    Topic(CONTROL_ALARM, Flow.CONTROL, "alarm-request/1", "the alarm id", 1,
          "requests are decided in the order of their log", 30 * DAY_MS, "as control.watchlist"),
    Topic(STATE_ALARM, Flow.STATE, "alarm-state/1", "the alarm id", 1, _ONE, -1,
          "the newest decision per key is the state, so it is compacted and never cut by age",
          LiveKeys("the life of an alarm each, of those that somebody has acted on",
                   "200,000 alarms: on more the decider refuses to decide",
                   "the site's recorder, when it deletes the alarm ([retention] alarms_days)")),
    Topic(CONTROL_LISTS, Flow.CONTROL, "plate-list/1", "the list id", 1,
          "requests are decided in the order of their log", 30 * DAY_MS,
          "who asked for what is kept as long as the answer"),
    Topic(STATE_LISTS, Flow.STATE, "decided-list/1", "the list id, or of a chunk list, base and "
          "number", 1, "a list's record has to come after the chunks that it names", -1,
          "the newest decision per key is the state, so it is compacted and never cut by age",
          LiveKeys("a list each, a chunk each of up to 10,000 lines, and one for the version floor",
                   "100 lists of 5 million lines together, 1,000 changes each, and what was "
                   f"removed within {_REMOVED}",
                   "the site's recorder: a list's as a rule's; a chunk's once no list names it, "
                   "and an hour after it was written", DAY_MS), is_timed_by_broker=True),
    Topic(CONTROL_REGISTER, Flow.CONTROL, "register-entry/3", "kind and id of the entry", 1, _ONE,
          -1, _STATE, _commands("an entry each, and one for the version floor")),
    Topic(CONTROL_STATISTICS, Flow.CONTROL, "statistics-order/1", "the order id", 1, _ONE, -1,
          _STATE, _NO_ORDERS),
    Topic(CONTROL_VIDEO, Flow.CONTROL, "video-order/1", "the order id", 1, _ONE, -1, _STATE,
          _NO_ORDERS),
    Topic(CONTROL_ACCOUNTS, Flow.CONTROL, "accounts/1", "one for all", 1,
          "one sealed snapshot of all accounts", -1, _STATE,
          LiveKeys("one", "one", "nobody: each snapshot replaces the one before")),
    Topic(CONTROL_MIRROR_CONFIRMED, Flow.CONTROL, "mirror-confirmed/1", "both sites and partition",
          1, _ONE, DAY_MS, "the mirror repeats every value each minute; one of yesterday says "
          "nothing about now",
          LiveKeys("a partition that is mirrored each, for each direction",
                   "the partitions that were mirrored within a day and an hour",
                   "nobody: what is not repeated is deleted by its age"), DAY_MS // 24),
    Topic(CONTROL_MIRROR_TAILS, Flow.CONTROL, "mirror-tail/1", "site epoch, partition and part", 1,
          _ONE, -1, "the rows that it is about stay in the store; of a command that is repeated "
          "one copy of each part stays",
          LiveKeys("a thousand records each, of those that were cut off a former primary's log",
                   "the records of such cuts that the store still has",
                   "the site's recorder, when the store's retention of records is over; nobody "
                   "where the store keeps them for ever")),
    Topic(EVENT_CANDIDATE, Flow.EVENT, "candidate/1", "the rule id", 1, _ONE, DAY_MS, _DAY),
    Topic(EVENT_ALARM, Flow.EVENT, "alarm/1", "the rule id", 1, _ONE, 30 * DAY_MS,
          "other systems may read a month back"),
    Topic(EVENT_SUPPRESSED, Flow.EVENT, "suppressed/1", "the rule id", 1, _ONE, 30 * DAY_MS,
          "as event.alarm, whose alarms it counts further passages of"),
    Topic(EVENT_STATISTICS, Flow.EVENT, "statistics/1", "the order id", 1, _ONE, DAY_MS, _DAY),
    Topic(EVENT_INCIDENT, Flow.EVENT, "incident/1", "the incident id", 1, _ONE, 30 * DAY_MS,
          "as event.alarm"),
    Topic(EVENT_NOTIFIED, Flow.EVENT, "notified/1", "the alarm id", 1, _ONE, 30 * DAY_MS,
          "as event.alarm"),
    Topic(EVENT_ACKNOWLEDGED, Flow.EVENT, "acknowledged/1", "the id of an alarm or incident", 1,
          _ONE, 30 * DAY_MS, "as event.alarm"),
    Topic(EVENT_VIDEO_PROGRESS, Flow.EVENT, "video-progress/1", "the order id", 1, _ONE, DAY_MS,
          _DAY),
    Topic(EVENT_COMMAND, Flow.EVENT, "command-answer/1", "the command id", 1, _ONE, 30 * DAY_MS,
          "a command that comes again within it is answered the same again"),
    Topic(METER_SENT, Flow.METER, "sent/1", "the producer", 1, _ONE, 7 * DAY_MS,
          "as long as the data it accounts for"),
    Topic(METER_ARRIVED, Flow.METER, "arrived/1", "the device", 1, _ONE, 7 * DAY_MS,
          "as meter.sent"),
    Topic(METER_LATENCY, Flow.METER, "latency/1", "class and minute", 1, _ONE, DAY_MS, _DAY),
    Topic(METER_QUALITY, Flow.METER, "quality/1", "device and minute", 1, _ONE, DAY_MS, _DAY),
    Topic(QUARANTINE_RECORDS, Flow.QUARANTINE, "rejected/1", "null", 1,
          "rejects are few; when they are many the device is the fault, not the bus",
          30 * DAY_MS, "a month to inspect a faulty device's records (Q-4)"),
)

TOPICS: dict[str, Topic] = {topic.name: topic for topic in _ALL}

DATA_TOPICS: tuple[str, ...] = tuple(
    topic.name
    for topic in _ALL
    if topic.flow is Flow.DATA and topic.name != DATA_VIDEO_SEGMENT
)
"""Those of devices' records. What is kept of films is data, too, and no record."""

INGESTED_TOPICS: tuple[str, ...] = (
    *DATA_TOPICS, DATA_VIDEO_SEGMENT, QUARANTINE_RECORDS, METER_SENT, METER_ARRIVED,
)  # fmt: skip
"""What the stores are filled from."""

REQUEST_TOPICS: tuple[str, ...] = (CONTROL_WATCHLIST, CONTROL_LISTS, CONTROL_ALARM)
"""Those whose records a decider answers."""
