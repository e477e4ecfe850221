"""What people and commands have made at a site, and how the other site comes to know it. Pure.

In: records of both sites' topics. Out: those that the other site lacks. Never: a newer value there
replaced by an older one; a record carried on that came from another site itself.

`STATE` is the one table of what is carried, `NOT_REPLICATED` of what is not, each with its reason:
a test compares both with the topics and the tables that there are.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin, parse_origin
from bus.contracts.plate_lists import is_chunk_key
from bus.contracts.site_epoch import MAX_NUMBER
from bus.contracts.topics import (
    CONTROL_ACCOUNTS,
    CONTROL_ALARM,
    CONTROL_LISTS,
    CONTROL_MIRROR_CONFIRMED,
    CONTROL_MIRROR_TAILS,
    CONTROL_REGISTER,
    CONTROL_STATISTICS,
    CONTROL_VIDEO,
    CONTROL_WATCHLIST,
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_COMMAND,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    EVENT_STATISTICS,
    EVENT_SUPPRESSED,
    EVENT_VIDEO_PROGRESS,
    STATE_ALARM,
    STATE_LISTS,
    STATE_WATCHLIST,
)
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.table_versions import TableVersions

FLOOR = FLOOR_KEY.encode()
MAX_KEYS = 200_000
"""Of one topic: ten times a large city's register."""


class Merge(Enum):
    """How what both sites have becomes one."""

    NEWEST = "newest"
    """Of each key the newest version; the whole topic is the snapshot, what follows the delta."""
    ONCE = "once"
    """Everything, in its order; readers know it by its id and take it once."""


class StateKind(NamedTuple):
    """One kind of state: a topic with one partition. `version` of a record of a state: larger is
    newer; `UNVERSIONED` of one whose key never has another value, which no floor takes.
    `after_fence`: whether the former primary's last words are carried, too."""

    name: str
    topic: str
    merge: Merge
    version: Callable[[ConsumedRecord], int | None] = lambda _: None
    after_fence: bool = False


UNVERSIONED = sys.maxsize


class _Versioned(msgspec.Struct):
    version: int


def _stated_version(record: ConsumedRecord) -> int | None:
    try:
        return msgspec.json.decode(record.value or b"", type=_Versioned).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _time(record: ConsumedRecord) -> int | None:
    return record.timestamp_ms if record.timestamp_ms >= 0 and record.value is not None else None


def _stated_version_or_time(record: ConsumedRecord) -> int | None:
    """Entries of an earlier version say none."""
    return _stated_version(record) or _time(record)


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")


def _version_of_list(record: ConsumedRecord) -> int | None:
    """Chunks of lines are carried in their place before the record that names them."""
    if is_chunk_key(_text(record.key or b"")):
        return None if record.value is None else UNVERSIONED
    return _stated_version(record)


class _OfEpoch(msgspec.Struct):
    epoch: int
    n: int


def _epoch_and_number(record: ConsumedRecord) -> int | None:
    """Ordered as the pairs are: the site epoch counts first."""
    try:
        found = msgspec.json.decode(record.value or b"", type=_OfEpoch)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_pair = 0 <= found.epoch <= MAX_NUMBER and 0 <= found.n < 1 << 64
    return found.epoch << 64 | found.n if is_pair else None


STATE = (
    StateKind("rules", STATE_WATCHLIST, Merge.NEWEST, _stated_version),
    StateKind("lists of plates", STATE_LISTS, Merge.NEWEST, _version_of_list),
    StateKind("register", CONTROL_REGISTER, Merge.NEWEST, _stated_version_or_time),
    StateKind("statistics orders", CONTROL_STATISTICS, Merge.NEWEST, _time),
    StateKind("accounts", CONTROL_ACCOUNTS, Merge.NEWEST, _stated_version),
    StateKind("alarms", EVENT_ALARM, Merge.ONCE),
    StateKind("further passages", EVENT_SUPPRESSED, Merge.ONCE),
    StateKind("alarm states", STATE_ALARM, Merge.NEWEST, _epoch_and_number),
    StateKind("incidents", EVENT_INCIDENT, Merge.ONCE),
    StateKind("notified", EVENT_NOTIFIED, Merge.ONCE, after_fence=True),
    StateKind("acknowledgements", EVENT_ACKNOWLEDGED, Merge.ONCE, after_fence=True),
)

NOT_REPLICATED: Mapping[str, str] = MappingProxyType({
    CONTROL_WATCHLIST: "a request is decided at its own site; state.watchlist is carried",
    CONTROL_LISTS: "a request is decided at its own site; state.lists is carried",
    CONTROL_ALARM: "a request is decided at its own site; state.alarm is carried",
    CONTROL_VIDEO: "an order names a film on a disk of its own site",
    CONTROL_MIRROR_CONFIRMED: "the mirror itself writes it at both sites",
    CONTROL_MIRROR_TAILS: "which rows of this site's own store came from records that were cut "
    "here",
    EVENT_CANDIDATE: "each site's watch list decides of the same records",
    EVENT_COMMAND: "answers stay with their requests",
    EVENT_STATISTICS: "each site answers its own orders",
    EVENT_VIDEO_PROGRESS: "of a film on a disk of its own site",
    # Tables of the operations store.
    "positions": "where this site's recorder stands on this site's topics",
    "rules": "filled from state.watchlist at each site",
    "alarms": "filled from event.alarm at each site",
    "rule_minutes": "how many alarms of a minute this site has to notify itself",
    "digested_alarms": "those of them that wait for their digest",
    "suppressed": "filled from event.suppressed at each site",
    "alarm_states": "filled from state.alarm at each site",
    "deleted_alarm_states": "of which alarms this site's state.alarm still lacks the tombstone",
    "incidents": "filled from event.incident at each site",
    "shadow_alarms": "what this site would have to notify if it became the primary now",
    "shadow_incidents": "what this site would have to notify of its own if it became the primary",
    "open_incidents": "which of this site's open incidents the other one has raised",
    "unnotified_alarms": "what this site has to notify itself; event.notified says when it has",
    "outbox": "of an earlier version",
    "restored": "whether this site's file came out of a backup, until its topics are read",
    "perhaps_notified": "what this site may have notified before its file was restored",
    "notified_before": "what event.notified says of it, for this site's own notices",
    "notices": "each site notifies its own people, with its own addresses",
    "picture_copies": "each site copies them within its own picture store",
    "said_acknowledged": "which acknowledgements stand on this site's event.acknowledged",
    # Tables of the console's accounts, and of what people have acknowledged.
    "accounts": "sealed on control.accounts, and filled from it at the secondary",
    "carried_accounts": "which accounts were in a snapshot, and its version",
    "sessions": "a session is of one console",
    "log_ins": "when somebody has logged in at this console",
    "links": "a link to set a password is of one console",
    # What people asked of somebody.
    "questions": "each site keeps what was asked at its own console",
    "acknowledged": "filled from event.acknowledged at each site, and written to it",
})  # fmt: skip


class _Known(NamedTuple):
    version: int
    origin: MirrorOrigin | None
    digest: bytes  # of the value: five million lines of lists are some sixty megabytes


def _digest(value: bytes | None) -> bytes:
    return hashlib.blake2b(value or b"", digest_size=16).digest()


class NewestOfKeys:
    """What a site has of a topic that is a state. Invariant: of each key the newest version; none
    of what a tombstone has taken at or below the site's version floor."""

    def __init__(self, kind: StateKind) -> None:
        self._kind = kind
        self._known: dict[bytes, _Known] = {}
        self._at_primary: dict[bytes, int] = {}
        self._named = TableVersions()
        self.newer_there: set[bytes] = set()
        """Keys whose version at the other site is newer than the primary's: kept there."""

    def __len__(self) -> int:
        return len(self._known)

    def on_target(self, record: ConsumedRecord) -> None:
        """A record of the site that is carried to, its own or one that was carried."""
        if record.value is None and record.key is not None:
            self._forget(record.key)
        version = self._kind.version(record)
        if record.key is None or version is None:
            return
        before = self._known.get(record.key)
        if before is None or version >= before.version:
            origin = parse_origin(record.header(MIRROR_ORIGIN))
            self._known[record.key] = _Known(version, origin, _digest(record.value))
            self._compare(record.key)

    def is_due(self, record: ConsumedRecord, cluster_id: str) -> bool:
        """Whether a record of the primary, `cluster_id`, has to be carried. A tombstone has not:
        each site writes its own, once the floor that was carried is above what it removes."""
        version = self._kind.version(record)
        if record.key is None:
            return False
        self._note_named(record, version)
        if version is None or record.header(MIRROR_ORIGIN) is not None:
            return False
        self._at_primary[record.key] = max(version, self._at_primary.get(record.key, version))
        self._compare(record.key)
        if record.key != FLOOR and version <= self.floor:
            return False  # the site has removed it since, and must not take it again
        known = self._known.get(record.key)
        if known is None or version > known.version:
            return True
        if version < known.version:
            return False
        # Two edits within a millisecond: the later one of the same log.
        is_later = known.origin is not None and known.origin.offset < record.offset
        from_there = known.origin is not None and known.origin.cluster_id == cluster_id
        return is_later and from_there and known.digest != _digest(record.value)

    def not_named(self) -> list[bytes]:
        """Keys of the other site that the primary, read from its start to its end, does not name
        although its floor is above what is known of them: they were removed there so long ago that
        no removal is left, while nothing was carried."""
        floor = min(self.floor, self._named.floor)
        return [
            key for key, known in self._known.items()
            if _text(key) not in self._named and key != FLOOR and known.version <= floor
        ]  # fmt: skip

    def _note_named(self, record: ConsumedRecord, version: int | None) -> None:
        """As a reader at the primary goes by it; what came too late names nothing."""
        key = _text(record.key or b"")
        if record.value is None:
            self._named.forget(key)
        elif key == FLOOR_KEY:
            self._named.raise_floor(-1 if version is None else version)
        elif version is not None:
            self._named.accept(key, version, is_removal=False)

    @property
    def floor(self) -> int:
        """Of the site that is carried to; -1: there is none."""
        known = self._known.get(FLOOR)
        return -1 if known is None else known.version

    def _forget(self, key: bytes) -> None:
        known = self._known.get(key)
        if known is not None and (known.version <= self.floor or known.version == UNVERSIONED):
            del self._known[key]
            self.newer_there.discard(key)

    def _compare(self, key: bytes) -> None:
        known, at_primary = self._known.get(key), self._at_primary.get(key)
        is_own = known is not None and known.origin is None and key != FLOOR
        if is_own and at_primary is not None and known is not None and known.version > at_primary:
            self.newer_there.add(key)
        else:
            self.newer_there.discard(key)


