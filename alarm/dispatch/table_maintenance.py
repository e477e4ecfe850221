"""Keeps this site's tables fit for a cleaner: rules, lists, register, which records were cut here.

A thread of the process that records (`OperationsRecorder`), so that one does it in a site. Core:
`TableCleanup`. In: the topics; how long what was removed is kept. Out: records that change nothing
for readers, and tombstones. Never: a step before the one before it is acknowledged; another site's
topic: each site removes by itself (ADR 0084).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from alarm.decisions.known_lists import list_record_of
from alarm.lists.unnamed_chunks import UnnamedChunks
from alarm.watchlist_reader import command_of
from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic, TopicMissing
from bus.client.kafka.producer import Producer
from bus.client.kafka.send_all import send_records
from bus.client.kafka.site_role import SiteRole
from bus.client.model import ConsumedRecord
from bus.client.table_cleanup import CleanupPlan, ReadCommand, TableCleanup, TableCommand
from bus.contracts import headers
from bus.contracts.commands import DecidedRule
from bus.contracts.diverged_ranges import decode_diverged_range
from bus.contracts.list_proposals import (
    ListProposal,
    SettledListProposal,
    beside_lists,
)
from bus.contracts.plate_lists import ListRecord, is_chunk_key
from bus.contracts.proposals import (
    BesideRules,
    EmergencyTarget,
    SettledProposal,
    beside_rules,
    key_of,
    proposal_key,
)
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import (
    CONTROL_MIRROR_TAILS,
    CONTROL_REGISTER,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.register_changes import entry_version
from bus.domain.retention import RetentionSettings, past_before_ms
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings

log = logging.getLogger(__name__)

CLIENT_ID = "tables"
FIRST_S = 60.0  # a start has other things to do
EVERY_S = 6 * 3600.0  # a quarter of the time that `LiveKeys.repaired_ms` leaves
RETRY_S = 60.0
SEND_S = 30.0
ROLE_TIMEOUT_S = 10.0

Command = TypeVar("Command", DecidedRule, ListRecord, RegisterEntry)


class MaintainedTable(NamedTuple):
    """A topic, how its values are read, and how one is written under another version. `floor`: the
    value that says one; None: its keys have no versions, and go by the time of their records."""

    topic: str
    read: ReadCommand
    days: Callable[[RetentionSettings], int]
    with_version: Callable[[bytes, int], bytes] = lambda value, _: value
    floor: Callable[[int], msgspec.Struct] | None = None


def read_rule(record: ConsumedRecord) -> TableCommand | None:
    """A command of the watch list. A rule that is over is gone as if it had been removed, and so is
    a proposal that is settled, and what an emergency's target may have again."""
    beside = beside_rules(record.value)
    if beside is not None:
        return _command_beside(beside)
    command = command_of(record)
    if command is None:
        return None
    is_put = command.op == "put"
    return TableCommand(
        command.rule_id, command.version, command.op == "remove", command.op == "floor",
        command.valid_until_ms if is_put else 0,
    )  # fmt: skip


def _command_beside(value: BesideRules) -> TableCommand:
    return TableCommand(
        key_of(value), value.version, isinstance(value, SettledProposal),
        over_at_ms=value.until_ms if isinstance(value, EmergencyTarget) else 0,
    )  # fmt: skip


def read_list(record: ConsumedRecord) -> TableCommand | None:
    """The record of a list, or what is proposed of one; chunks of its lines are no commands."""
    if is_chunk_key((record.key or b"").decode("utf-8", "replace")):
        return None
    beside = beside_lists(record.value)
    if beside is not None:
        return TableCommand(
            proposal_key(beside.list_id), beside.version,
            isinstance(beside, SettledListProposal),
            over_at_ms=beside.ends_ms if isinstance(beside, ListProposal) else 0,
        )  # fmt: skip
    found = list_record_of(record)
    if found is None:
        return None
    return TableCommand(found.list_id, found.version, found.op == "remove", found.op == "floor")


def read_entry(record: ConsumedRecord) -> TableCommand | None:
    """An entry of the register."""
    try:
        entry = msgspec.json.decode(record.value or b"", type=RegisterEntry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    version = entry_version(entry, record.timestamp_ms)
    return TableCommand(entry.key, version, entry.op == "remove", entry.op == "floor")


def read_diverged_range(record: ConsumedRecord) -> TableCommand | None:
    """Which records were cut: they came before it was said, and the store keeps none longer."""
    part = decode_diverged_range(record.value)
    if part is None:
        return None
    at_ms = max(record.timestamp_ms, 0)
    return TableCommand(part.key.decode(), at_ms, over_at_ms=at_ms)


def _with_version(struct: type[Command], value: bytes, version: int) -> bytes:
    command = msgspec.json.decode(value, type=struct)
    return msgspec.json.encode(msgspec.structs.replace(command, version=version))


def _rule_with_version(value: bytes, version: int) -> bytes:
    beside = beside_rules(value)
    if beside is None:
        return _with_version(DecidedRule, value, version)
    return msgspec.json.encode(msgspec.structs.replace(beside, version=version))


def _list_with_version(value: bytes, version: int) -> bytes:
    beside = beside_lists(value)
    if beside is None:
        return _with_version(ListRecord, value, version)
    return msgspec.json.encode(msgspec.structs.replace(beside, version=version))


def _removed_days(keep: RetentionSettings) -> int:
    return keep.removed_days


TABLES = (
    MaintainedTable(
        STATE_WATCHLIST, read_rule, _removed_days, _rule_with_version,
        lambda version: DecidedRule(rule_id=FLOOR_KEY, op="floor", version=version),
    ),
    MaintainedTable(
        STATE_LISTS, read_list, _removed_days, _list_with_version,
        lambda version: ListRecord(list_id=FLOOR_KEY, op="floor", version=version),
    ),
    MaintainedTable(
        CONTROL_REGISTER, read_entry, _removed_days, partial(_with_version, RegisterEntry),
        lambda version: RegisterEntry(kind="site", id="", op="floor", version=version),
    ),
    MaintainedTable(
        CONTROL_MIRROR_TAILS, read_diverged_range, lambda keep: keep.longest_record_days
    ),
)  # fmt: skip


class TableMaintenance:
    """A pass over all tables at times."""

    def __init__(self, site: SiteSettings, bus: BusSettings, keep: RetentionSettings) -> None:
        """The site is taken for a mirror until it is known to be none."""
        self._site = site
        self._bus = bus
        self._keep = keep
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tables", daemon=True)

    def start(self) -> TableMaintenance:
        """Begin."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End; a bus that does not answer is not waited for."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        pause_s = FIRST_S
        while not self._stopping.wait(pause_s):
            pause_s = EVERY_S if self._maintain_all() else RETRY_S

    def _maintain_all(self) -> bool:
        """Whether all tables that are there were looked after."""
        is_done = True
        with closing(SiteRole(self._bus, f"{CLIENT_ID}-role").start()) as role:
            role.wait_until_known(ROLE_TIMEOUT_S)
            is_primary = role.is_primary
            for table in TABLES:
                try:
                    self.maintain(table, wall_clock.now_ms(), is_primary=is_primary)
                    if table.topic == STATE_LISTS:
                        self.remove_chunks(wall_clock.now_ms(), is_primary=is_primary)
                except TopicMissing:
                    continue
                except (BusError, CatchUpTimeout) as error:
                    log.info("%s is looked after later: %s", table.topic, error)
                    is_done = False
        return is_done

    def maintain(self, table: MaintainedTable, now_ms: int, *, is_primary: bool) -> CleanupPlan:
        """One table: read it to its end, and write what is due. Raises BusError, CatchUpTimeout; a
        pass that ends in the middle is made good by the next one."""
        raises_floor = is_primary or table.floor is None
        cleanup = partial(TableCleanup, table.read, has_floor=table.floor is not None)
        with CompactedTopic(
            self._bus, table.topic, cleanup, client_id=CLIENT_ID, stopping=self._stopping
        ) as topic:
            topic.catch_up()
            before_ms = past_before_ms(table.days(self._keep), now_ms)
            plan = topic.state.plan(before_ms, raises_floor=raises_floor)
        if not plan.is_empty:
            self._write(table, plan)
        return plan

    def remove_chunks(self, now_ms: int, *, is_primary: bool) -> int:
        """Tombstones for lines that no list names; how many. Raises BusError, CatchUpTimeout."""
        with CompactedTopic(
            self._bus, STATE_LISTS, UnnamedChunks, client_id=CLIENT_ID, stopping=self._stopping
        ) as topic:
            topic.catch_up()
            keys = topic.state.due(now_ms, is_primary=is_primary)
        if keys:
            log.info("%s: %d chunks that no list names are removed", STATE_LISTS, len(keys))
            self._send([self._tombstones(STATE_LISTS, keys)])
        return len(keys)

    def _write(self, table: MaintainedTable, plan: CleanupPlan) -> None:
        log.info(
            "%s: %d repaired, %d came too late, %d removed, floor %s", table.topic,
            len(plan.repairs), len(plan.late), len(plan.removed), plan.floor,
        )  # fmt: skip
        self._send(self.steps(table, plan))

    def _send(self, steps: Iterable[list[ConsumedRecord]]) -> None:
        """One after the other."""
        producer = Producer(
            self._bus, client_id=CLIENT_ID, overrides={"message.timeout.ms": int(SEND_S * 1000)}
        )
        try:
            for step in steps:
                send_records(producer, step, SEND_S)
        finally:
            producer.close(0)

    def steps(self, table: MaintainedTable, plan: CleanupPlan) -> Iterable[list[ConsumedRecord]]:
        """The records of a plan; each list is written when the one before is acknowledged."""
        yield [
            record if version is None else record._replace(
                value=table.with_version(record.value or b"", version), timestamp_ms=-1
            )
            for record, version in plan.repairs
        ]  # fmt: skip
        yield self._tombstones(table.topic, plan.late)
        if plan.floor is not None and table.floor is not None:
            value, key = msgspec.json.encode(table.floor(plan.floor)), FLOOR_KEY.encode()
            said_by = self._headers_of(table.topic)
            yield [ConsumedRecord(table.topic, 0, -1, -1, key, value, said_by)]
        yield self._tombstones(table.topic, plan.removed)

    def _tombstones(self, topic: str, keys: Iterable[bytes]) -> list[ConsumedRecord]:
        said_by = self._headers_of(topic)
        return [ConsumedRecord(topic, 0, -1, -1, key, None, said_by) for key in keys]

    def _headers_of(self, topic: str) -> list[tuple[str, bytes]]:
        return [
            (headers.SCHEMA, TOPICS[topic].schema.encode()),
            (headers.SITE, self._site.name.encode()),
        ]
