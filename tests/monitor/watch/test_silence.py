"""Silences of devices, servers and districts: found once, grouped, ended; kept over a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from made_city import MONDAY_MS, ZONE, MadeCity, Sightings

from bus.contracts.alarms import Incident
from bus.domain.times import HOUR_MS, MINUTE_MS
from monitor.watch import senders
from monitor.watch.habits import HABIT_BYTES
from monitor.watch.senders import CLOCK, SITE, SavedHabit
from monitor.watch.silence import SilenceBounds, SilenceJudge
from monitor.watch.watch_clock import WatchClock

pytestmark = pytest.mark.slow  # days in virtual time

TICK_MS = 5_000
DEVICES, SERVERS, DISTRICTS = 100, 10, 4
MOST = 1_000  # senders, where a test fills the memory


class SteadyCity:
    """A hundred devices that send every half minute; who is silent, a test says."""

    def __init__(self) -> None:
        self.made = MadeCity(DEVICES, 1, districts=DISTRICTS, behind_one_server=10)
        self.clock = WatchClock(MONDAY_MS)
        self.judge = self.new_judge()
        self.incidents: list[Incident] = []
        self.silent: Callable[[int], bool] = lambda _: False

    def new_judge(self) -> SilenceJudge:
        judge = SilenceJudge(self.clock, ZONE, SilenceBounds())
        judge.senders.register = self.made.register
        return judge

    def runs(self, minutes: float, *, blind: bool = False) -> list[Incident]:
        """What has opened and ended meanwhile."""
        found: list[Incident] = []
        for _ in range(int(minutes * MINUTE_MS / TICK_MS)):
            now_ms = self.clock.now_ms + TICK_MS
            self.clock.advance(now_ms, blind=blind)
            self.judge.seen({} if blind else self._sightings(now_ms))
            found += self.judge.judge()
        self.incidents += found
        return found

    def _sightings(self, now_ms: int) -> Sightings:
        turn = now_ms // TICK_MS % 6
        return {
            name: 1
            for device, name in enumerate(self.made.names)
            if device % 6 == turn and not self.silent(device)
        }


def saved_rows(judge: SilenceJudge) -> list[SavedHabit]:
    """What has changed, part by part."""
    return [row for part in judge.senders.changed() for row in part]


@pytest.fixture(scope="module")
def learnt() -> list[object]:
    """What is known after a day and a few hours."""
    city = SteadyCity()
    city.runs(27 * 60)
    assert city.incidents == []
    return saved_rows(city.judge)


@pytest.fixture
def city(learnt: Sequence[object]) -> SteadyCity:
    """Tuesday, three o'clock, all is well; every test has a copy."""
    city = SteadyCity()
    city.clock.advance(MONDAY_MS + 27 * HOUR_MS)
    city.judge = city.new_judge()
    city.judge.senders.load(learnt)  # type: ignore[arg-type]
    city.runs(10)
    return city


def described(incidents: Sequence[Incident]) -> list[tuple[str, str, str]]:
    return [(i.state, i.detail["scope"], i.detail["address"]) for i in incidents]


def test_one_device_is_missed_within_a_minute_of_its_bound_once_and_until_it_is_back(
    city: SteadyCity,
) -> None:
    """With its place, its server and the bound that was passed."""
    city.silent = lambda device: device == 7
    found = city.runs(60)
    address = city.made.names[7][0]
    assert described(found) == [("open", "device", address)]
    (opened,) = found
    assert (opened.camera_ip, opened.checkpoint_id, opened.district_id) == (address, "c7", "d0")
    assert opened.recognizer_ip == city.made.names[7][1]
    assert 0 <= int(opened.detail["silent_ms"]) - int(opened.detail["bound_ms"]) <= MINUTE_MS
    assert 2 * MINUTE_MS <= int(opened.detail["bound_ms"]) <= 3 * MINUTE_MS  # four half minutes
    city.silent = lambda _: False
    back = city.runs(60)
    assert described(back) == [("closed", "device", address)]
    assert back[0].incident_id == opened.incident_id
    assert back[0].closed_at_ms > opened.opened_at_ms + HOUR_MS - MINUTE_MS


def test_a_silent_server_is_one_incident_and_none_of_its_devices(city: SteadyCity) -> None:
    """Eight devices hang on it."""
    server = city.made.names[0][1]
    city.silent = lambda device: city.made.names[device][1] == server
    assert described(city.runs(120)) == [("open", "server", server)]
    city.silent = lambda _: False
    assert described(city.runs(30)) == [("closed", "server", server)]


def test_a_silent_district_is_one_incident(city: SteadyCity) -> None:
    """Servers, their devices and smart cameras: twenty-five in all."""
    city.silent = lambda device: city.made.district(device) == "d2"
    found = city.runs(120)
    assert described(found) == [("open", "district", "d2")]
    assert found[0].district_id == "d2"
    city.silent = lambda _: False
    assert described(city.runs(30)) == [("closed", "district", "d2")]


def test_most_of_a_district_is_one_incident_too(city: SteadyCity) -> None:
    """A few that live on do not hide that the others fell silent together."""
    city.silent = lambda device: city.made.district(device) == "d1" and device % 5 != 0
    found = city.runs(120)
    assert [state for state, _, _ in described(found)].count("open") <= 5
    assert ("open", "district", "d1") in described(found)


def test_when_all_are_silent_it_is_the_site(city: SteadyCity) -> None:
    """Not a hundred, not four districts."""
    city.silent = lambda _: True
    assert described(city.runs(120)) == [("open", "site", SITE)]
    city.silent = lambda _: False
    assert described(city.runs(30)) == [("closed", "site", SITE)]


def test_a_device_that_stays_silent_when_its_district_is_back_is_told_by_itself(
    city: SteadyCity,
) -> None:
    """Its timer begins with the end of the other incident."""
    city.silent = lambda device: city.made.district(device) == "d2"
    city.runs(30)
    city.silent = lambda device: device == 60
    found = city.runs(30)
    address = city.made.names[60][0]
    assert described(found) == [("closed", "district", "d2"), ("open", "device", address)]


def test_while_nothing_can_be_seen_nobody_is_silent(city: SteadyCity) -> None:
    """The bus is away for two hours; nobody is missed then, nor when it is back."""
    assert city.runs(120, blind=True) == []
    assert city.runs(60) == []


@pytest.mark.parametrize("jump_ms", [10 * MINUTE_MS, -10 * MINUTE_MS, 24 * HOUR_MS])
def test_a_jump_of_the_hosts_clock_is_nobodys_silence(city: SteadyCity, jump_ms: int) -> None:
    """Set by hand, or the host has slept."""
    city.clock.advance(city.clock.now_ms + jump_ms)
    assert city.runs(60) == []


def test_a_restart_keeps_habits_and_open_incidents(city: SteadyCity) -> None:
    """The silent device is not told again; its end has the name of its beginning; others are judged
    at once by what the earlier process learnt."""
    city.silent = lambda device: device == 7
    (opened,) = city.runs(30)
    saved, members = saved_rows(city.judge), city.judge.members(opened.incident_id)
    city.judge = city.new_judge()
    city.judge.senders.load(saved)
    city.judge.resume(opened, members)
    assert city.runs(30) == []
    city.silent = lambda device: device == 8
    back, other = city.runs(10)
    assert (back.incident_id, back.state) == (opened.incident_id, "closed")
    assert described([other]) == [("open", "device", city.made.names[8][0])]


def test_a_restart_in_the_midst_of_a_silence_is_no_reason_to_wait_anew(city: SteadyCity) -> None:
    """Before: every timer began again, and a device was missed late or, when it was silent around a
    restart, never. The hour in which no watch ran counts for nobody."""
    city.silent = lambda device: device == 7
    city.runs(1.5)
    saved = saved_rows(city.judge)
    city.clock = WatchClock(city.clock.now_ms + HOUR_MS)
    city.judge = city.new_judge()
    city.judge.senders.load(saved)
    found = city.runs(2.5)
    assert described(found) == [("open", "device", city.made.names[7][0])]
    assert int(found[0].detail["silent_ms"]) <= int(found[0].detail["bound_ms"]) + MINUTE_MS


def test_two_restarts_in_the_midst_of_a_silence_are_none_either(city: SteadyCity) -> None:
    """Before: the second process saved no timer of a device that was silent all the while, and what
    the first had saved meant nothing to the third."""
    city.silent = lambda device: device == 7
    city.runs(1.5)
    file: dict[tuple[str, str], SavedHabit] = {}
    for minutes in (0.25, 0.25):
        file |= {(row.scope, row.address): row for row in saved_rows(city.judge)}
        city.clock = WatchClock(city.clock.now_ms + HOUR_MS)
        city.judge = city.new_judge()
        city.judge.senders.load(file.values())
        assert city.runs(minutes) == []
    found = city.runs(2)
    assert described(found) == [("open", "device", city.made.names[7][0])]
    assert int(found[0].detail["silent_ms"]) <= int(found[0].detail["bound_ms"]) + MINUTE_MS


def test_a_file_without_timers_is_read_too(city: SteadyCity) -> None:
    """As earlier versions wrote it: habits go on, timers begin now."""
    rows = [one for one in saved_rows(city.judge) if one.scope != CLOCK]
    old = [SavedHabit(one.scope, one.address, one.server, one.body[:HABIT_BYTES]) for one in rows]
    city.judge = city.new_judge()
    assert city.judge.senders.load(old) == []
    city.silent = lambda device: device == 7
    assert described(city.runs(10)) == [("open", "device", city.made.names[7][0])]


def test_a_restart_keeps_a_district_together(city: SteadyCity) -> None:
    """Who belongs to it is in the file."""
    city.silent = lambda device: city.made.district(device) == "d2"
    (opened,) = city.runs(30)
    saved, members = saved_rows(city.judge), city.judge.members(opened.incident_id)
    city.judge = city.new_judge()
    city.judge.senders.load(saved)
    city.judge.resume(opened, members)
    assert city.runs(60) == []
    city.silent = lambda _: False
    assert described(city.runs(10)) == [("closed", "district", "d2")]


def test_invented_addresses_do_not_fill_the_memory(
    city: SteadyCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are known are judged as before. Fewer than in earnest: each is judged each time."""
    monkeypatch.setattr(senders, "MAX_SENDERS", MOST)
    for n in range(0, 2 * MOST, 100):
        city.judge.seen({(f"invented-{k}", ""): 1 for k in range(n, n + 100)})
    assert len(city.judge.senders.by_key) == MOST
    assert city.judge.senders.refused > 0
    city.silent = lambda device: device == 7
    assert described(city.runs(30)) == [("open", "device", city.made.names[7][0])]


def test_a_device_that_was_taken_away_is_forgotten_after_two_weeks(city: SteadyCity) -> None:
    """Its incident ends, and says why."""
    city.silent = lambda device: device == 7
    city.runs(30)
    sender = next(
        s for s in city.judge.senders.by_key.values() if s.address == city.made.names[7][0]
    )
    sender.last_ms -= 14 * 24 * HOUR_MS
    (ended,) = city.runs(61)
    assert (ended.state, ended.detail["reason"]) == ("closed", "forgotten")
    assert city.judge.senders.pop_forgotten() == [sender.key]
