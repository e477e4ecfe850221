"""One passage is one alarm: what is suppressed, and that no crash or replay changes it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.dispatch.quiet_times import QuietTimes, RaisedAlarm, key_of
from alarm.dispatch.raised_alarms import RaisedAlarms
from bus.contracts.alarms import Alarm, Suppressed
from bus.domain.times import HOUR_MS

QUIET_MS = {"a": 10_000, "b": 10_000, "none": 0}


def alarm(record: str, captured_ms: int, *, rule: str = "a", target: str = "浙A12345",
          place: str = "c1", camera: str = "") -> Alarm:  # fmt: skip
    return Alarm(alarm_id=f"{rule}:{record}", rule_id=rule, rule_name="", severity="warning",
                 record_id=record, kind="vehicle", checkpoint_id=place, camera_ip=camera,
                 captured_at_ms=captured_ms, received_at_ms=1, raised_at_ms=1,
                 target=target)  # fmt: skip


def decided(*alarms: Alarm, raised: RaisedAlarms | None = None) -> tuple[list[str], list[Suppressed]]:
    found = (raised or RaisedAlarms()).new_of(alarms, QUIET_MS)
    return [one.record_id for one in found.raised], found.suppressed


def test_one_passage_seen_by_two_lanes_is_one_alarm_and_the_other_is_said() -> None:
    """Ten seconds later it is another one; what was suppressed prolongs nothing."""
    seen = [alarm("1", 0), alarm("2", 9_999), alarm("3", 10_000), alarm("4", 19_999)]
    raised, suppressed = decided(*seen)
    assert raised == ["1", "3"]
    assert suppressed == [
        Suppressed(alarm_id="a:1", record_id="2", rule_id="a", captured_at_ms=9_999),
        Suppressed(alarm_id="a:3", record_id="4", rule_id="a", captured_at_ms=19_999),
    ]


def test_what_arrives_late_falls_into_the_quiet_time_of_what_was_captured_later() -> None:
    """The difference of capture times counts, whichever arrives first."""
    raised, suppressed = decided(alarm("later", 30_000), alarm("earlier", 21_000), alarm("old", 1))
    assert raised == ["later", "old"]
    assert [one.record_id for one in suppressed] == ["earlier"]


@pytest.mark.parametrize("other", [
    alarm("2", 5, rule="b"), alarm("2", 5, target="浙A12346"), alarm("2", 5, place="c2"),
    alarm("2", 5, place="", camera="10.0.0.1"),
], ids=["rule", "target", "place", "device"])  # fmt: skip
def test_another_rule_target_or_place_is_another_alarm(other: Alarm) -> None:
    """Two alarms of one record by two rules stay two."""
    assert decided(alarm("1", 0), other) == (["1", "2"], [])


def _fields(one: Alarm) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def of_case(
    record: str, captured_ms: int, rule: str, *, case: str = "K-7", name: str = "the driver", place: str = "c1",
    severity: str = "warning", units: Sequence[str] = (), plate: str = "",
) -> Alarm:  # fmt: skip
    return Alarm(**{
        **_fields(alarm(record, captured_ms, rule=rule, target=plate, place=place)), "case": case, "case_target": name,
        "severity": severity, "visible_to": [*units],
    })  # fmt: skip


def test_a_target_of_a_case_is_one_whichever_of_its_rules_and_plates_met_it() -> None:
    """A face that no gallery names, and a plate that was read otherwise, too; each by its own rule's quiet time."""
    seen = [
        of_case("plate", 0, "a", plate="浙A12345"), of_case("other plate", 4_000, "b", plate="浙B1"),
        of_case("face", 9_999, "b"), of_case("always", 9_999, "none"), of_case("later", 20_000, "b"),
    ]  # fmt: skip
    raised, suppressed = decided(*seen)
    assert raised == ["plate", "always", "later"]
    assert [(one.alarm_id, one.rule_id, one.record_id) for one in suppressed] == [
        ("a:plate", "b", "other plate"), ("a:plate", "b", "face"),
    ]  # fmt: skip


@pytest.mark.parametrize("other", [
    of_case("2", 5, "b", case="K-8"), of_case("2", 5, "b", name="the passenger"), of_case("2", 5, "b", place="c2"),
    of_case("2", 5, "b", severity="critical"), of_case("2", 5, "b", units=["north"]), of_case("2", 5, "b", name=""),
], ids=["case", "target", "place", "severity", "units", "no target"])  # fmt: skip
def test_no_alarm_of_a_case_stands_for_one_of_another_target_or_that_others_are_told_of(other: Alarm) -> None:
    assert decided(of_case("1", 0, "a"), other) == (["1", "2"], [])
    assert decided(other, of_case("1", 0, "a")) == (["2", "1"], [])


def test_a_replay_knows_targets_of_cases_from_what_stands_on_the_topic() -> None:
    """Whatever part of a batch was published before the crash, what is decided again is decided the same."""
    batch = [of_case(str(number), at, rule) for number, (at, rule) in enumerate(
        [(0, "a"), (5_000, "b"), (12_000, "b"), (15_000, "a"), (30_000, "a"), (30_000, "b")]
    )]  # fmt: skip
    whole, suppressed = decided(*batch)
    assert (whole, len(suppressed)) == (["0", "2", "4"], 3)
    for kept in range(len(whole) + 1):
        memory = RaisedAlarms()
        for offset, one in enumerate(one for one in batch if one.record_id in whole[:kept]):
            on_topic = msgspec.json.decode(msgspec.json.encode(one), type=RaisedAlarm)
            memory.add(on_topic, 0, offset)
        again, more = decided(*batch, raised=memory)
        assert again == whole[kept:]
        assert {one.record_id for one in more} == {one.record_id for one in suppressed}


def test_a_rule_without_a_quiet_time_and_a_record_without_a_target_are_each_an_alarm() -> None:
    """A face, or a plate of which hardly anything was read, may be anybody's."""
    assert decided(alarm("1", 0, rule="none"), alarm("2", 0, rule="none"))[0] == ["1", "2"]
    assert decided(alarm("1", 0, target=""), alarm("2", 0, target=""))[0] == ["1", "2"]
    assert decided(alarm("1", 0, place=""), alarm("2", 0, place=""))[0] == ["1", "2"]


def test_an_alarm_of_an_earlier_version_is_known_by_the_plate_that_was_read() -> None:
    """It names no target."""
    before = alarm("1", 0, target="")
    raised = RaisedAlarms()
    raised.add(Alarm(**{**_fields(before), "plate_number": "浙A·12345"}), 0)
    assert decided(alarm("2", 5), raised=raised)[0] == []


def test_an_alarm_that_the_topic_does_not_take_stands_for_no_other() -> None:
    """Else a target whose first record is too large would raise no alarm at all."""
    seen = [alarm("large", 0), alarm("2", 5), alarm("3", 6)]
    found = RaisedAlarms().new_of(seen, QUIET_MS, refused={"a:large"})
    assert [one.record_id for one in found.raised] == ["2"]
    assert [one.alarm_id for one in found.suppressed] == ["a:2"]


def test_a_target_is_remembered_as_long_as_its_record_can_come_again_and_no_longer() -> None:
    """A record that is matched again a week later is suppressed as before."""
    raised = RaisedAlarms(remembered_ms=2 * HOUR_MS)
    raised.add(alarm("1", 0), 0, 7)
    raised.forget(2 * HOUR_MS)
    assert decided(alarm("2", 1), raised=raised)[0] == []
    raised.forget(4 * HOUR_MS)
    assert decided(alarm("2", 1), raised=raised)[0] == ["2"]


def test_there_is_a_bound_of_passages_and_the_oldest_hour_goes_first() -> None:
    """How many went is told."""
    known = QuietTimes(limit=10)
    for number in range(15):
        known.add(alarm(str(number), 0, target=f"浙A{number:05}"), number * HOUR_MS // 4, number)
    assert known.forget_surplus() == 8
    assert len(known) == 7
    assert known.suppressor(alarm("x", 1, target="浙A00008"), 10_000) == "a:8"
    assert known.suppressor(alarm("x", 1, target="浙A00007"), 10_000) is None


def test_rule_target_and_place_are_no_text_that_another_three_could_make() -> None:
    """An id may hold any character but one."""
    assert key_of(alarm("1", 0, rule="a:浙A12345")) != key_of(alarm("1", 0, target="浙A12345:c1"))


class Seen(NamedTuple):
    """A record that meets a rule, as it is drawn."""

    rule: str
    target: int
    place: int
    second: int


records = st.builds(
    Seen, st.sampled_from(["a", "b", "none"]), st.integers(0, 2), st.integers(0, 1),
    st.integers(0, 40),
)  # fmt: skip


class MortalDispatcher:
    """The two topics and the group's position; a worker that dies where it is told to."""

    def __init__(self, candidates: list[Alarm], seed: int) -> None:
        self._candidates, self._rng = candidates, random.Random(seed)
        self.alarms: list[Alarm] = []
        self.suppressed: list[Suppressed] = []
        self._committed = 0

    def work(self, deaths: int) -> None:
        """From the committed position to the end; each death leaves some of what was sent."""
        while self._committed < len(self._candidates):
            self._live(may_die=deaths > 0)
            deaths -= 1
        self._committed = self._rng.randrange(len(self._candidates) + 1)  # and all once more
        self._live(may_die=False)

    def _live(self, *, may_die: bool) -> None:
        raised, at = RaisedAlarms(), self._committed
        for offset, one in enumerate(self.alarms):
            raised.add(one, 0, offset)
        while at < len(self._candidates):
            batch = self._candidates[at : at + self._rng.randint(1, 5)]
            found = raised.new_of(batch, QUIET_MS)
            if may_die and self._rng.random() < 0.3:
                self.alarms += [one for one in found.raised if self._rng.random() < 0.5]
                return
            for one in found.raised:
                raised.add(one, 0, len(self.alarms))
                self.alarms.append(one)
            if may_die and self._rng.random() < 0.3:
                self.suppressed += [one for one in found.suppressed if self._rng.random() < 0.5]
                return
            self.suppressed += found.suppressed
            at += len(batch)
            if self._rng.random() < 0.5:
                self._committed = at
        self._committed = at


@given(st.lists(records, max_size=40), st.integers(0, 2**32), st.integers(0, 12))
def test_no_crash_or_replay_changes_what_is_raised_and_what_is_suppressed(
    seen: list[Seen], seed: int, deaths: int
) -> None:
    """Whatever of a batch was published before a death: each record is raised once, or counted for
    one alarm, and it is the one that a run without deaths decides on."""
    candidates = [
        alarm(str(n), one.second * 1000, rule=one.rule, target=f"浙A1234{one.target}",
              place=f"c{one.place}")
        for n, one in enumerate(seen)
    ]  # fmt: skip
    expected = RaisedAlarms().new_of(candidates, QUIET_MS)
    site = MortalDispatcher(candidates, seed)
    site.work(deaths)
    ids = Counter(one.alarm_id for one in site.alarms)
    assert set(ids) == {one.alarm_id for one in expected.raised}
    assert set(ids.values()) <= {1}
    pairs = {(one.rule_id, one.record_id, one.alarm_id) for one in site.suppressed}
    assert {pair[:2] for pair in pairs} == {(s.rule_id, s.record_id) for s in expected.suppressed}
    assert len({pair[:2] for pair in pairs}) == len(pairs)
    by_id = {one.alarm_id: one for one in site.alarms}
    for passage in site.suppressed:
        difference = by_id[passage.alarm_id].captured_at_ms - passage.captured_at_ms
        assert abs(difference) < QUIET_MS[passage.rule_id]
