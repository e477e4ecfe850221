"""Answers of probes become incidents: each part, process, stage, disk, curve; no old answers."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from bus.contracts.alarms import Incident
from monitor.ports import ProcessStatus
from monitor.watch.curve import MinuteTotal
from monitor.watch.judge import STALE_MS, SUSPENDED, UsedSpace, WatchBounds, WatchJudge
from monitor.watch.progress import StageOffsets

BEGIN = 1_736_000_000_000
TP = ("data.vehicle", 0)


class JudgedMinutes:
    """A judge that is asked every second."""

    def __init__(self) -> None:
        self.now_ms = BEGIN
        self.judge = WatchJudge(BEGIN, ZoneInfo("UTC"), WatchBounds())
        self.incidents: list[Incident] = []

    def passes(self, seconds: int, answer: object = None) -> list[str]:
        """What has changed meanwhile; `answer` is called every fifth second, as a probe would."""
        found: list[Incident] = []
        for second in range(seconds):
            if callable(answer) and second % 5 == 0:
                answer()
            self.now_ms += 1_000
            found += self.judge.tick(self.now_ms)
        self.incidents += found
        return [f"{one.kind}:{one.detail['subject']}:{one.state}" for one in found]


def test_an_old_answer_opens_nothing() -> None:
    """The probe has died or hangs: what it said half a minute ago is not said of now."""
    world = JudgedMinutes()
    world.judge.on_parts("edge", {"edge": ""})
    world.judge.on_parts("edge", {"edge": "refused"})
    assert world.passes(STALE_MS // 1000 - 1) == []
    assert world.passes(300) == []


def test_every_incident_says_that_the_watch_has_notified_it() -> None:
    """So that the dispatcher does not."""
    world = JudgedMinutes()
    world.judge.on_parts("edge", {"edge": ""})
    assert world.passes(40, lambda: world.judge.on_parts("edge", {"edge": "no"})) == [
        "away:edge:open"
    ]
    assert world.incidents[0].notified_by == "watch"
    assert world.judge.open_incidents()[0].incident_id == world.incidents[0].incident_id


def test_a_suspended_driver_is_one_incident_though_its_stages_stand() -> None:
    """And one that is dead as well."""
    for state, expected in (
        (SUSPENDED, "standing:streams:open"),
        ("restarting", "away:streams:open"),
    ):
        world = JudgedMinutes()
        state_now = ["running"]

        def answer(world: JudgedMinutes = world, now: list[str] = state_now) -> None:
            one = ProcessStatus(role="streams", state=now[0])
            world.judge.on_processes([one], ("streams",))
            end = 100 if now[0] == "running" else 500 + world.now_ms - BEGIN
            found = StageOffsets("ingest", "streams", {TP: 100}, {TP: end}, {TP: 0})
            world.judge.on_stage(found)

        assert world.passes(20, answer) == []
        state_now[0] = state
        assert world.passes(40, answer) == [expected]


def test_a_full_spool_and_a_full_disk_are_told_and_end_below_their_bounds() -> None:
    """Half of the spool, nine tenths of the disk; between the bound and its end nothing changes."""
    world = JudgedMinutes()
    used = {"spool": 51, "disk /data": 91}

    def answer() -> None:
        world.judge.on_spool(UsedSpace("spool", used["spool"], 100, is_spool=True))
        world.judge.on_space([UsedSpace("disk /data", used["disk /data"], 100)])

    assert sorted(world.passes(40, answer)) == ["filling:disk /data:open", "filling:spool:open"]
    used.update({"spool": 49, "disk /data": 89})
    assert world.passes(60, answer) == []
    used.update({"spool": 40, "disk /data": 80})
    assert sorted(world.passes(60, answer)) == [
        "filling:disk /data:closed", "filling:spool:closed"
    ]  # fmt: skip


def test_curves_say_nothing_while_ingest_stands() -> None:
    """Nothing becomes valid then, and that is no fault of devices."""
    for is_standing in (True, False):
        world = JudgedMinutes()

        def answer(world: JudgedMinutes = world, standing: bool = is_standing) -> None:
            seconds = (world.now_ms - BEGIN) // 1000
            position = 100 if standing and seconds >= 10 else seconds
            found = StageOffsets("ingest", "streams", {TP: position}, {TP: seconds}, {TP: 0})
            world.judge.on_stage(found)
            minute_ms = BEGIN + seconds // 60 * 60_000
            if seconds >= 60:
                world.judge.on_minutes([MinuteTotal("vehicle", minute_ms, 1_000, 500)])

        changes = world.passes(600, answer)
        assert ("curve:vehicle:open" in changes) is not is_standing
        assert ("standing:ingest:open" in changes) is is_standing


def test_records_lost_to_retention_are_an_incident_with_their_count() -> None:
    """At once: every minute of waiting costs more."""
    world = JudgedMinutes()

    def answer() -> None:
        end = (world.now_ms - BEGIN) // 1000 + 1_000
        found = StageOffsets("ingest", "streams", {TP: end - 900}, {TP: end}, {TP: end - 650})
        world.judge.on_stage(found)

    assert world.passes(3, answer) == ["lost:ingest:open"]
    assert world.incidents[0].detail["lost"] == "250"
