"""Tables that people change, beside cleaners that take all but the last record of each key."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from alarm.dispatch.table_maintenance import TABLES, MaintainedTable, TableMaintenance
from alarm.rules import RuleSet
from alarm.watchlist_reader import command_of, rule_id_of
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.client.register_follower import RegisterTable
from bus.client.table_cleanup import CleanupPlan, TableCleanup, TableCommand
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.diverged_ranges import DivergedRange, encode_diverged_range
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.proposals import (
    BesideRules,
    EmergencyTarget,
    SettledProposal,
    WatchProposal,
)
from bus.contracts.register import District
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import DAY_MS, STATE_WATCHLIST, TOPICS
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.retention import RetentionSettings, past_before_ms
from bus.domain.table_versions import TableVersions
from bus.domain.visibility import EVERYTHING
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings
from deploy.backup.control_topics import lacking
from deploy.servers.databus import start_broker
from dr_mirror.state.plan.site_state import FLOOR, STATE, NewestOfKeys
from monitor.live.rule_table import RuleTable

HOUR_MS = DAY_MS // 24
REMOVED_DAYS = 400
BEGIN_MS = 1_800_000_000_000
RULES, _LISTS, REGISTER, TAILS = TABLES
InForce = dict[str, str]
"""By key, what it says."""


class Said(NamedTuple):
    """A decision of somebody: `text` is None where a key is removed."""

    key: str
    version: int
    text: str | None
    until_ms: int = 0

    @property
    def rank(self) -> int:
        return 2 * self.version + (self.text is None)


class Stored(NamedTuple):
    record: ConsumedRecord
    appended_ms: int


# -- the two tables, and who reads them ---------------------------------------------------


def rule_value(said: Said) -> bytes:
    command = DecidedRule(
        rule_id=said.key, op="remove" if said.text is None else "put", version=said.version,
        name=said.text or "", match={"plate_number": ["浙A12345"]}, valid_until_ms=said.until_ms,
    )  # fmt: skip
    return msgspec.json.encode(command)


def entry_value(said: Said) -> bytes:
    district = District(district_id=said.key, name=said.text or "", name_en="")
    entry = RegisterEntry(
        kind="district", id=said.key, op="remove" if said.text is None else "put",
        version=said.version, district=None if said.text is None else district,
    )  # fmt: skip
    return msgspec.json.encode(entry)


def rules_in_force(log: Iterable[Stored], now_ms: int) -> InForce:
    """By the rules that Spark and the dispatcher match with, and those that the console shows."""
    rules, shown = RuleSet(), RuleTable()
    for record, _ in log:
        command = command_of(record)
        if command is not None:
            rules.apply(command)
            shown.apply(command)
        elif record.value is None:
            rules.forget(rule_id_of(record))
            shown.forget(rule_id_of(record))
    found = {
        rule_id: rule.command.name for rule_id, rule in rules.rules.items()
        if not 0 < rule.command.valid_until_ms <= now_ms
    }  # fmt: skip
    page = shown.page(now_ms, viewer=EVERYTHING, limit=1000)
    assert {rule.rule_id: rule.name for rule in page.rules} == found
    return found


def entries_in_force(log: Iterable[Stored], _: int) -> InForce:
    """By the table that everybody follows the register with."""
    table = RegisterTable(lambda _: None)
    for record, _ in log:
        table.apply(record)
    return {one.id: one.district.name for one in table.values.values() if one.district}


class TableUnderTest(NamedTuple):
    table: MaintainedTable
    value: Callable[[Said], bytes]
    in_force: Callable[[Iterable[Stored], int], InForce]
    key: Callable[[str], str]
    may_end: bool


UNDER_TEST = (
    TableUnderTest(RULES, rule_value, rules_in_force, lambda key: key, True),
    TableUnderTest(REGISTER, entry_value, entries_in_force, lambda key: f"district/{key}", False),
)


# -- a site, whose topic a cleaner shortens ------------------------------------------------


@dataclass
class SiteTable:
    """One topic. Invariant: `log` is in the order of its offsets, with holes."""

    name: str
    what: TableUnderTest
    dice: random.Random
    log: list[Stored] = field(default_factory=list)
    end: int = 0
    ever: list[ConsumedRecord] = field(default_factory=list)

    def append(self, record: ConsumedRecord, now_ms: int) -> None:
        stored = record._replace(offset=self.end)
        self.log.append(Stored(stored, now_ms))
        self.ever.append(stored)
        self.end += 1

    def say(self, said: Said, now_ms: int) -> None:
        key = self.what.key(said.key).encode()
        topic = self.what.table.topic
        self.append(ConsumedRecord(topic, 0, -1, now_ms, key, self.what.value(said), []), now_ms)

    def versions(self) -> TableVersions:
        """As a writer knows them."""
        found = TableVersions()
        for record, _ in self.log:
            if record.value is None:
                found.forget((record.key or b"").decode())
            elif command := self.command(record):
                if command.is_floor:
                    found.raise_floor(command.version)
                else:
                    found.accept(command.key, command.version, is_removal=command.is_removal)
        return found

    def command(self, record: ConsumedRecord) -> TableCommand | None:
        return self.what.table.read(record)

    def plan(self, now_ms: int, *, is_primary: bool = True) -> CleanupPlan:
        cleanup = TableCleanup(self.what.table.read)
        for record, _ in self.log:
            cleanup.apply(record)
        return cleanup.plan(past_before_ms(REMOVED_DAYS, now_ms), raises_floor=is_primary)

    def steps(self, now_ms: int, *, is_primary: bool = True) -> Iterator[None]:
        """A pass, one record at a time: whoever stops asking has died. Others may write between
        two of them."""
        site = SiteSettings(name="test")
        shell = TableMaintenance(site, BusSettings(), RetentionSettings(removed_days=REMOVED_DAYS))
        for step in shell.steps(self.what.table, self.plan(now_ms, is_primary=is_primary)):
            for record in step:
                yield
                self.append(record, now_ms)

    def maintain(self, now_ms: int, *, is_primary: bool = True) -> None:
        for _ in self.steps(now_ms, is_primary=is_primary):
            pass

    def clean(self, now_ms: int) -> None:
        """As Kafka's cleaner: of a prefix that is old enough the last record of each key, and of
        these no tombstone that is older still."""
        old = next(
            (n for n, one in enumerate(self.log) if one.appended_ms > now_ms - DAY_MS),
            len(self.log),
        )
        end = self.dice.randint(0, old)
        last = {one.record.key: one for one in self.log[:end]}
        self.log = [
            one for one in last.values()
            if one.record.value is not None or one.appended_ms > now_ms - 2 * DAY_MS
        ] + self.log[end:]  # fmt: skip
        self.log.sort(key=lambda one: one.record.offset)


def carry(primary: SiteTable, target: SiteTable, now_ms: int) -> None:
    """One life of a mirror, which reads both from the start."""
    kind = next(kind for kind in STATE if kind.topic == primary.what.table.topic)
    state = NewestOfKeys(kind)
    for record, _ in target.log:
        state.on_target(record)
    due = []
    for record, _ in primary.log:
        if state.is_due(record, primary.name):
            origin = MirrorOrigin(primary.name, record.offset)
            due.append(record._replace(headers=[(MIRROR_ORIGIN, origin.value)]))
            state.on_target(due[-1])
    for record in sorted(due, key=lambda one: one.key == FLOOR):
        target.append(record, now_ms)
    for key in state.not_named():
        target.append(ConsumedRecord(kind.topic, 0, -1, now_ms, key, None, []), now_ms)


@dataclass
class TableWorld:
    """Two sites, people who decide at the primary, and what ought to be in force there."""

    what: TableUnderTest
    dice: random.Random
    now_ms: int = BEGIN_MS
    decided: dict[str, Said] = field(default_factory=dict)
    backup: list[DecidedRule] = field(default_factory=list)
    said: int = 0

    def __post_init__(self) -> None:
        self.primary, self.other = (SiteTable(name, self.what, self.dice) for name in "AB")

    def step(self) -> None:
        actions = [
            self.decide, self.decide, self.two_decide_at_once, self.old_writer, self.old_writer,
            self.clean, self.clean, self.clean, self.pass_that_dies, self.pass_beside_a_decision,
            self.wait, self.wait_long, self.wait_long, self.wait_long, self.mirror, self.switch, self.save, self.restore,
        ]  # fmt: skip
        self.dice.choice(actions)()
        assert self.what.in_force(self.primary.log, self.now_ms) == self.expected()

    def expected(self) -> InForce:
        return {
            key: said.text for key, said in self.decided.items()
            if said.text is not None and not 0 < said.until_ms <= self.now_ms
        }  # fmt: skip

    def new_decision(self, versions: TableVersions) -> Said:
        key, self.said = self.dice.choice("abcdefgh"), self.said + 1
        at_ms = self.now_ms + self.dice.randint(-2 * HOUR_MS, 2 * HOUR_MS)
        if self.dice.random() < 0.1:
            at_ms -= 2 * REMOVED_DAYS * DAY_MS  # a machine whose clock has stood still
        text = self.dice.choice([None, f"text {self.said}"])
        ends = text is not None and self.what.may_end and self.dice.random() < 0.3
        until_ms = at_ms + self.dice.randint(1, 30) * DAY_MS if ends else 0
        return Said(key, versions.next_version(self.what.key(key), at_ms), text, until_ms)

    def say(self, said: Said) -> None:
        known = self.decided.get(said.key)
        if known is None or said.rank >= known.rank:
            self.decided[said.key] = said
        self.primary.say(said, self.now_ms)

    def decide(self) -> None:
        self.say(self.new_decision(self.primary.versions()))

    def two_decide_at_once(self) -> None:
        """Neither knows of the other."""
        versions = self.primary.versions()
        for said in [self.new_decision(versions), self.new_decision(versions)]:
            self.say(said)

    def old_writer(self) -> None:
        """Something of long ago arrives once more, or only now; what is as new as what is decided
        would be another decision."""
        ever = [one for one in self.primary.ever if one.value is not None and one.key != FLOOR]
        newest = {said.version for said in self.decided.values()}
        late = self.dice.choice(ever) if ever else None
        command = self.primary.command(late) if late else None
        if late and command and command.version not in newest:
            self.primary.append(late, self.now_ms)

    def clean(self) -> None:
        self.dice.choice([self.primary, self.other]).clean(self.now_ms)

    def pass_that_dies(self) -> None:
        steps = self.primary.steps(self.now_ms)
        for _ in range(self.dice.randint(0, 4)):
            next(steps, None)

    def pass_beside_a_decision(self) -> None:
        """It has read the topic before, and writes behind it."""
        steps = self.primary.steps(self.now_ms)
        for _ in range(self.dice.randint(1, 3)):
            next(steps, None)
        for _ in range(4):
            self.decide()
        for _ in steps:
            pass

    def wait(self) -> None:
        """Less than a cleaner leaves; then comes a pass."""
        self.now_ms += self.dice.randint(1, 6 * HOUR_MS)
        self.primary.maintain(self.now_ms)
        self.other.maintain(self.now_ms, is_primary=False)

    def wait_long(self) -> None:
        self.wait()
        self.now_ms += self.dice.choice([1, 30, 500, 900]) * DAY_MS
        self.wait()

    def mirror(self) -> None:
        carry(self.primary, self.other, self.now_ms)
        assert self.what.in_force(self.other.log, self.now_ms) == self.expected()

    def switch(self) -> None:
        """A planned one."""
        self.mirror()
        self.primary, self.other = self.other, self.primary

    def save(self) -> None:
        if self.what.table is RULES:
            rules = RuleSet()
            for record, _ in self.primary.log:
                if command := command_of(record):
                    rules.apply(command)
            self.backup = [rule.command for rule in rules.rules.values()]

    def restore(self) -> None:
        """The topic is there, and knows better."""
        for command in lacking(self.backup, self.primary.versions()):
            value, key = msgspec.json.encode(command), command.rule_id.encode()
            record = ConsumedRecord(STATE_WATCHLIST, 0, -1, self.now_ms, key, value, [])
            self.primary.append(record, self.now_ms)


@pytest.mark.parametrize("what", UNDER_TEST, ids=lambda one: one.table.topic)
def test_no_removed_key_comes_back_and_none_in_force_goes(
    what: TableUnderTest, dice: random.Random
) -> None:
    """By an old writer, a restored backup, the other site, a cleaner at any moment, a pass that
    died, or two who decided at once: whoever reads the topic from its start sees what was
    decided."""
    for _ in range(12):
        world = TableWorld(what, random.Random(dice.getrandbits(64)))
        for _ in range(120):
            world.step()


@pytest.mark.parametrize("what", UNDER_TEST, ids=lambda one: one.table.topic)
def test_what_was_removed_long_ago_takes_no_room_once_a_cleaner_was_there(
    what: TableUnderTest, dice: random.Random
) -> None:
    """Of a thousand keys that came and went two are left: the one in force, and the floor."""
    site, now_ms = SiteTable("A", what, dice), BEGIN_MS
    for number in range(1_000):
        for text in ("there", None):
            now_ms += HOUR_MS
            site.say(Said(f"key {number}", now_ms, text), now_ms)
    site.say(Said("stays", now_ms, "in force"), now_ms)
    now_ms += (REMOVED_DAYS + 1) * DAY_MS
    site.maintain(now_ms)
    now_ms += 10 * DAY_MS
    last = {one.record.key: one for one in site.log}
    left = {key for key, one in last.items() if one.record.value is not None}
    assert left == {what.key("stays").encode(), FLOOR}
    assert what.in_force(last.values(), now_ms) == {"stays": "in force"}
    assert site.plan(now_ms).is_empty


def proposal_value(rule_id: str, version: int, *, settled: bool = False) -> bytes:
    text = WatchCommand(rule_id=rule_id, op="put", version=1, match={"plate_number": ["浙A12345"]})
    value: BesideRules = WatchProposal(
        rule_id=rule_id, version=version, text=text, decided_at_ms=version, command_id="c"
    )
    if settled:
        value = SettledProposal(
            rule_id=rule_id, version=version, outcome="rejected", proposal=version - 1,
            decided_at_ms=version, command_id="d",
        )  # fmt: skip
    return msgspec.json.encode(value)


def on_watchlist(key: str, value: bytes, offset: int) -> ConsumedRecord:
    return ConsumedRecord(STATE_WATCHLIST, 0, offset, 1, key.encode(), value, [])


def test_a_settled_proposal_and_an_old_emergency_go_like_what_was_removed_and_what_waits_stays() -> None:
    """A proposal that an older one has overtaken in the log is written once more, as it is."""
    now_ms = BEGIN_MS + (REMOVED_DAYS + 40) * DAY_MS
    late = proposal_value("late", now_ms - 9)
    emergency = EmergencyTarget(
        target="t", version=BEGIN_MS, rule_id="e", command_id="e", until_ms=BEGIN_MS + 30 * DAY_MS
    )
    fresh = msgspec.structs.replace(emergency, target="u", version=now_ms, until_ms=now_ms + DAY_MS)
    cleanup = TableCleanup(RULES.read)
    for offset, (key, value) in enumerate([
        ("over~proposed", proposal_value("over", BEGIN_MS)),
        ("over~proposed", proposal_value("over", BEGIN_MS + 1, settled=True)),
        ("waits~proposed", proposal_value("waits", now_ms - 2)),
        ("late~proposed", proposal_value("late", now_ms - 1)), ("late~proposed", late),
        ("t~emergency", msgspec.json.encode(emergency)), ("u~emergency", msgspec.json.encode(fresh)),
    ]):  # fmt: skip
        cleanup.apply(on_watchlist(key, value, offset))
    plan = cleanup.plan(past_before_ms(REMOVED_DAYS, now_ms))
    assert plan.removed == (b"over~proposed", b"t~emergency")
    assert [(one.value, version) for one, version in plan.repairs] == [(proposal_value("late", now_ms - 1), None)]
    again = RULES.with_version(proposal_value("late", 5), 7)
    assert again == proposal_value("late", 5).replace(b'"version":5', b'"version":7')


def test_a_value_of_a_newer_version_and_a_stranger_s_are_left_alone() -> None:
    """Nothing is known of them, so that nothing is decided about them."""
    cleanup = TableCleanup(RULES.read)
    strange = [b"{}", b"\xff", b'{"rule_id":"a","op":"merge","version":1}', b"[" * 100_000]
    for number, value in enumerate(strange):
        record = ConsumedRecord(STATE_WATCHLIST, 0, number, 1, b"key %d" % number, value, [])
        cleanup.apply(record)
    cleanup.apply(ConsumedRecord(STATE_WATCHLIST, 0, 9, 1, None, b"{}", []))
    assert cleanup.plan(BEGIN_MS).is_empty


def test_cut_records_are_named_no_longer_than_the_store_keeps_records() -> None:
    """By the time of the report, which is later than all of them."""
    part = DivergedRange(
        epoch=2, topic="data.face", partition=0, offset=5, end_offset=7, ids=("a", "b")
    )
    cleanup = TableCleanup(TAILS.read, has_floor=False)
    value = encode_diverged_range(part)
    cleanup.apply(ConsumedRecord(TAILS.topic, 0, 0, BEGIN_MS, part.key, value, []))
    keep = RetentionSettings(records_days=30)
    assert TAILS.days(RetentionSettings()) == 0, "for ever"
    days = TAILS.days(keep)
    before = cleanup.plan(past_before_ms(days, BEGIN_MS + 29 * DAY_MS))
    after = cleanup.plan(past_before_ms(days, BEGIN_MS + 31 * DAY_MS))
    assert before.is_empty
    assert after == CleanupPlan(removed=(part.key,))
    assert cleanup.plan(past_before_ms(0, BEGIN_MS + 31 * DAY_MS)).is_empty


def test_a_pass_on_a_real_topic_writes_what_is_due_and_the_next_one_nothing(
    tmp_path: Path,
) -> None:
    """Repaired, floor and tombstone, as the brokers have them."""
    broker = start_broker(tmp_path)
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(bus, client_id="test")
    admin.ensure_topics([TOPICS[one.topic] for one in TABLES])
    producer = Producer(bus, client_id="test")
    now_ms = wall_clock.now_ms()
    long_ago_ms = now_ms - 1_000 * DAY_MS
    for said in [
        Said("gone", long_ago_ms, "x"), Said("gone", long_ago_ms + 1, None),
        Said("new", now_ms - 1, "new"), Said("new", now_ms - 9, "late"),
    ]:  # fmt: skip
        producer.send(STATE_WATCHLIST, rule_value(said), key=said.key, timestamp_ms=long_ago_ms)
    producer.close()
    shell = TableMaintenance(SiteSettings(name="test"), bus, RetentionSettings())
    plan = shell.maintain(RULES, now_ms, is_primary=True)
    assert (len(plan.repairs), plan.floor, plan.removed) == (1, long_ago_ms + 1, (b"gone",))
    assert shell.maintain(RULES, now_ms, is_primary=True).is_empty
    assert shell.maintain(REGISTER, now_ms, is_primary=True).is_empty
    with Consumer(bus, client_id="test") as consumer:
        consumer.assign({TopicPartition(STATE_WATCHLIST, 0): BEGINNING})
        found: list[ConsumedRecord] = []
        while not consumer.at_end:  # ends by the test's own time limit
            found += consumer.poll(100, 0.1)
    written = [(one.key, command_of(one)) for one in found[4:]]
    assert [key for key, _ in written] == [b"new", FLOOR_KEY.encode(), b"gone"]
    assert found[4].value == rule_value(Said("new", now_ms - 1, "new"))
    assert written[1][1] == DecidedRule(rule_id=FLOOR_KEY, op="floor", version=long_ago_ms + 1)
    assert found[6].value is None
    admin.close()
    broker.stop()
