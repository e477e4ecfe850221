"""The last minutes in memory, the watch list's fold."""

from __future__ import annotations

import random

import msgspec
from console_city import alarms, incidents
from rules_in_force import in_force

from bus.contracts.alarms import NOT_PRIMARY
from bus.contracts.commands import DecidedRule
from bus.domain.visibility import EVERYTHING
from monitor.cluster.bus_overview import skew_percent
from monitor.live.alarm_digests import MAX_DIGESTS, MAX_DISTRICTS, AlarmDigests
from monitor.live.live_record import LiveRecord
from monitor.live.live_state import ALARM_LIT_MS, MAX_ALARMS, MAX_ROWS_PER_DELTA, LiveState
from monitor.live.rule_table import RuleTable

NOW = 1_800_000_000_000


def seen(i: int, checkpoint: str = "a") -> LiveRecord:
    return LiveRecord(
        record_id=f"r{i}",
        kind="vehicle",
        checkpoint_id=checkpoint,
        camera_ip="",
        captured_at_ms=NOW,
        received_at_ms=NOW,
    )


def test_a_delta_tells_what_is_new_once() -> None:
    """The second one is empty."""
    live = LiveState(rows=10)
    live.on_counts({"data.vehicle": 3})
    live.on_records([seen(i) for i in range(3)], NOW)
    first, second = live.delta(NOW), live.delta(NOW + 1)
    assert [r.record_id for r in first.rows] == ["r0", "r1", "r2"]
    assert first.passed == 3
    assert second.empty


def test_a_flood_is_counted_in_full_and_shown_in_part() -> None:
    """A thousand rows a second are too many to read; the rings stay bounded."""
    live = LiveState(rows=10)
    live.delta(NOW)
    live.on_counts({"data.vehicle": 5000, "data.face": 500})
    live.on_records([seen(i) for i in range(5000)], NOW)
    delta = live.delta(NOW + 2000)
    assert delta.passed == 5500
    assert len(delta.rows) == MAX_ROWS_PER_DELTA
    assert delta.rows[-1].record_id == "r4999"
    assert len(live.rows) == 10
    [point] = delta.rates
    assert (point.rates["vehicle"], point.rates["face"], point.total) == (2500, 250, 2750)


def test_an_alarm_told_twice_is_one_alarm() -> None:
    """The topic may repeat itself; the id does not."""
    live = LiveState(rows=10)
    one = alarms(NOW)[0]
    assert live.on_alarm(one)
    assert not live.on_alarm(one)
    assert live.delta(NOW).alarms == (one,)
    for i in range(MAX_ALARMS + 5):
        live.on_alarm(msgspec.structs.replace(one, alarm_id=f"x{i}", rule_id=f"r{i % 20}"))
    assert len(live.alarms) == MAX_ALARMS


def test_an_incident_that_has_ended_stays_ended() -> None:
    """A late beginning does not open it again."""
    live = LiveState(rows=10)
    opened = incidents(NOW)[0]
    closed = msgspec.structs.replace(opened, state="closed", closed_at_ms=NOW)
    for event in (opened, closed, opened):
        live.on_incident(event)
    assert live.open_incidents() == []


def test_an_incident_that_a_take_over_has_ended_is_open_again_when_this_site_raises_it() -> None:
    """Both sites judge the same records, and may call it by the same id."""
    live = LiveState(rows=10)
    opened = incidents(NOW)[0]
    end = msgspec.structs.replace(
        opened, state="closed", closed_at_ms=NOW, detail={"reason": NOT_PRIMARY}
    )
    for event in (opened, end, end, opened):
        live.on_incident(event)
    assert live.open_incidents() == [opened]


def test_the_state_of_a_checkpoint_follows_what_happens_there() -> None:
    """unknown → active → quiet; an alarm lights it for two minutes; an incident outranks silence."""
    live = LiveState(rows=10)
    assert live.checkpoint_state("a", NOW, 1000, EVERYTHING) == "unknown"
    live.on_records([seen(1)], NOW)
    assert live.checkpoint_state("a", NOW + 999, 1000, EVERYTHING) == "active"
    assert live.checkpoint_state("a", NOW + 1000, 1000, EVERYTHING) == "quiet"
    live.on_incident(msgspec.structs.replace(incidents(NOW)[0], checkpoint_id="a"))
    assert live.checkpoint_state("a", NOW, 1000, EVERYTHING) == "fault"
    live.on_alarm(msgspec.structs.replace(alarms(NOW)[0], checkpoint_id="a", raised_at_ms=NOW))
    assert live.checkpoint_state("a", NOW + ALARM_LIT_MS - 1, 1000, EVERYTHING) == "alarm"
    assert live.checkpoint_state("a", NOW + ALARM_LIT_MS, 1000, EVERYTHING) == "fault"


def test_a_trajectory_is_in_the_order_of_capture_whatever_the_order_of_arrival() -> None:
    """Property over shuffles."""
    seed = random.SystemRandom().randrange(1 << 32)
    mine = [a for a in alarms(NOW) if a.rule_id == "w-stolen"]
    shuffled = alarms(NOW)
    random.Random(seed).shuffle(shuffled)
    live = LiveState(rows=10)
    for alarm in shuffled:
        live.on_alarm(alarm)
    assert live.trajectory("w-stolen") == mine, f"seed {seed}"


def command(rule: str, version: int, op: str = "put", until: int = 0) -> DecidedRule:
    return DecidedRule(
        rule_id=rule,
        op=op,
        version=version,
        name=rule,
        match={"plate_number": ["x"]},
        valid_until_ms=until,
    )  # type: ignore[arg-type]


def test_the_newest_version_wins_whatever_the_order_of_arrival() -> None:
    """Property: any order of any commands folds to the same list."""
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    commands = [
        command(f"w{dice.randrange(6)}", v, dice.choice(("put", "remove"))) for v in range(1, 60)
    ]
    expected: dict[str, DecidedRule] = {c.rule_id: c for c in commands}
    for _ in range(20):
        dice.shuffle(commands)
        book = RuleTable()
        for one in commands:
            book.apply(one)
        found = {c.rule_id: c for c in in_force(book, NOW)}
        assert found == {k: c for k, c in expected.items() if c.op == "put"}, f"seed {seed}"


def test_a_rule_ends_by_time() -> None:
    """Without a message."""
    book = RuleTable()
    book.apply(command("w", 500, until=1000))
    assert len(in_force(book, 999)) == 1
    assert in_force(book, 1000) == []


def test_skew_is_the_fullest_partition_against_the_mean() -> None:
    """I-2."""
    assert skew_percent([10, 10]) == 0
    assert skew_percent([30, 10]) == 50
    assert skew_percent([0, 0]) == 0
    assert skew_percent([7]) == 0


def test_a_street_of_hits_of_one_rule_is_some_rows_and_one_digest_a_minute() -> None:
    """Each alarm is in a row or counted, once; another rule's alarms keep their place."""
    live = LiveState(rows=10, alarms_a_minute=3)
    other, one = alarms(NOW)[:2]
    live.on_alarm(msgspec.structs.replace(other, alarm_id="other", rule_id="other"))
    flood = [
        msgspec.structs.replace(one, alarm_id=f"f{n}", rule_id="flood", raised_at_ms=NOW + n * 40)
        for n in range(5_000)
    ]
    live.delta(NOW)
    digests = {}
    for start in range(0, 5_000, 100):
        for alarm in flood[start : start + 100]:
            assert live.on_alarm(alarm)
            assert not live.on_alarm(alarm), "the topic repeats itself"
        delta = live.delta(NOW + start * 40)
        assert len(delta.digests) <= 2
        assert len(delta.alarms) <= 6
        digests |= {one.digest_id: one for one in delta.digests}
    minutes = {alarm.raised_at_ms // 60_000 for alarm in flood}
    assert len(digests) == len(minutes) == 4
    assert sum(one.count for one in digests.values()) + 3 * len(minutes) == 5_000
    assert "other" in {alarm.rule_id for alarm in live.alarms}
    assert len(live.alarms) == 1 + 3 * len(minutes)
    newest = live.digests.newest
    assert [one.minute_ms // 60_000 for one in newest] == sorted(minutes)
    assert newest[-1].raised_at_ms == flood[-1].raised_at_ms


def test_the_memory_of_digests_is_bounded() -> None:
    """The newest are kept."""
    live = LiveState(rows=10, alarms_a_minute=1)
    [one, *_] = alarms(NOW)
    for rule in range(MAX_DIGESTS + 50):
        for n in range(2):
            live.on_alarm(msgspec.structs.replace(one, alarm_id=f"{rule}/{n}", rule_id=f"r{rule}"))
    newest = live.digests.newest
    assert [d.rule_id for d in newest] == [f"r{n}" for n in range(50, MAX_DIGESTS + 50)]


def test_a_digest_that_was_forgotten_comes_back_with_all_its_alarms() -> None:
    digests = AlarmDigests(1)
    [one, *_] = alarms(NOW)
    for rule in ("first", *(f"r{n}" for n in range(MAX_DIGESTS)), "first"):
        for _ in range(2):
            digests.on_alarm(msgspec.structs.replace(one, rule_id=rule))
    assert digests.newest[-1].rule_id == "first"
    assert digests.newest[-1].count == 3


def test_districts_of_a_digest_are_bounded_and_none_of_its_alarms_is_lost() -> None:
    """Those of further districts count as of an unknown place, which concerns everybody."""
    digests = AlarmDigests(0)
    [one, *_] = alarms(NOW)
    for number in range(MAX_DISTRICTS + 30):
        digests.on_alarm(msgspec.structs.replace(one, district_id=f"d{number}"))
    [digest] = digests.take_changed()
    assert digest.count == MAX_DISTRICTS + 30
    assert len(digest.districts) == MAX_DISTRICTS + 1
    of_one = digest.of_districts(lambda district: district in ("d7", ""))
    assert of_one is not None
    assert of_one.count == 31
    assert of_one.digest_id == digest.digest_id
    assert digest.of_districts(lambda district: district == "elsewhere") is None
    assert digests.take_changed() == ()
