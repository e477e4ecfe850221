"""Answers of probes become incidents: each part, process, stage, disk, curve; no old answers."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts.alarms import Incident
from deploy.roles.stages import STAGES
from monitor.ports import ProcessStatus
from monitor.watch.curve import MinuteTotal
from monitor.watch.driver_pages import StageTopics
from monitor.watch.judge import STALE_MS, SUSPENDED, UsedSpace, WatchBounds, WatchJudge
from monitor.watch.progress import StageOffsets

BEGIN = 1_736_000_000_000
TP = ("data.vehicle", 0)


class JudgedMinutes:
    """A judge that is asked every second."""

    def __init__(self, stages: Sequence[StageTopics] = STAGES) -> None:
        self.now_ms = BEGIN
        self.judge = WatchJudge(BEGIN, ZoneInfo("UTC"), WatchBounds(), stages)
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


def test_a_driver_of_some_applications_is_away_and_what_it_does_does_not_stand_besides() -> None:
    """On a Spark cluster there are three; only drivers with other names were judged."""
    world, state = JudgedMinutes(), ["running"]

    def answer() -> None:
        world.judge.on_processes([ProcessStatus(role="streams-meters", state=state[0])])
        end = 100 if state[0] == "running" else 500 + world.now_ms - BEGIN
        place = ("meter.quality", 0)
        world.judge.on_stage(StageOffsets("quality", {place: 100}, {place: end}, {place: 0}))

    assert world.passes(20, answer) == []
    state[0] = "restarting"
    assert world.passes(60, answer) == ["away:streams-meters:open"]


def test_without_a_supervisor_a_driver_is_away_when_its_page_does_not_answer() -> None:
    """Under systemd, containers or spark-submit: nobody says it but the process itself."""
    world, faults = JudgedMinutes(), {"streams": ""}

    def answer() -> None:
        world.judge.on_processes([])
        world.judge.on_page("streams", faults["streams"])
        world.judge.on_page("streams-ingest", "refused")

    assert world.passes(60, answer) == []
    faults["streams"] = "refused"
    assert world.passes(60, answer) == ["away:streams:open"]
    faults["streams"] = ""
    assert world.passes(60, answer) == ["away:streams:closed"]


def test_of_several_edges_each_is_away_and_filling_by_its_own_name() -> None:
    """And while one is away no silence is judged: its devices send nothing that arrives."""
    world = JudgedMinutes()

    def answer() -> None:
        world.judge.on_parts("edge", {"edge": ""})
        world.judge.on_parts("edge-2", {"edge-2": "refused" if world.now_ms > BEGIN else ""})
        world.judge.on_spool(UsedSpace("spool edge-3", 80, 100, is_spool=True))
        world.judge.on_spool(UsedSpace("spool", 1, 100, is_spool=True))

    assert world.passes(100, answer) == ["filling:spool edge-3:open", "away:edge-2:open"]


def test_records_that_an_edge_had_to_give_up_for_the_second_site_are_an_incident_of_that_edge() -> None:
    """Its detail says that the RPO is not 0 through it; it ends when the mirror has caught up."""
    world, records = JudgedMinutes(), {"edge": 0, "edge-2": 7}

    def answer() -> None:
        for name, count in records.items():
            world.judge.on_uncovered(name, count)

    assert world.passes(5, answer) == ["uncovered:edge-2:open"]
    [incident] = world.judge.open_incidents()
    assert incident.detail["rpo"] == "≠ 0 (edge-2)"
    records["edge-2"] = 0
    assert world.passes(30, answer) == ["uncovered:edge-2:closed"]


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
            world.judge.on_processes([one])
            end = 100 if now[0] == "running" else 500 + world.now_ms - BEGIN
            found = StageOffsets("ingest", {TP: 100}, {TP: end}, {TP: 0})
            world.judge.on_stage(found)

        assert world.passes(20, answer) == []
        state_now[0] = state
        assert world.passes(40, answer) == [expected]


def test_a_stage_that_stands_is_told_though_its_process_of_the_same_name_runs() -> None:
    """The supervisor's word that the dispatcher runs does not take back that it stands; it and what
    it stores are one incident, which names both."""
    dispatcher = StageTopics("dispatcher", "dispatcher", ("event.candidate",))
    recorder = StageTopics("recorder", "dispatcher", ("event.alarm",))
    for standing in (["dispatcher"], ["recorder"], ["dispatcher", "recorder"]):
        world = JudgedMinutes((dispatcher, recorder))
        ends = dict.fromkeys(("dispatcher", "recorder"), 10)

        def answer(world: JudgedMinutes = world, ends: dict[str, int] = ends) -> None:
            world.judge.on_processes([ProcessStatus(role="dispatcher", state="running", pid=1)])
            for one in (dispatcher, recorder):
                place = (one.topics[0], 0)
                at = StageOffsets(one.stage, {place: 10}, {place: ends[one.stage]}, {place: 0})
                world.judge.on_stage(at)

        assert world.passes(20, answer) == []
        ends.update(dict.fromkeys(standing, 15))
        opened = [one for one in world.passes(50, answer) if one.startswith("standing")]
        assert opened == [f"standing:{standing[0]}:open"]
        [told] = [one for one in world.judge.open_incidents() if one.kind == "standing"]
        assert told.detail["records"] == "5"
        assert told.detail.get("stages", told.detail["stage"]).split() == standing


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
            found = StageOffsets("ingest", {TP: position}, {TP: seconds}, {TP: 0})
            world.judge.on_stage(found)
            minute_ms = BEGIN + seconds // 60 * 60_000
            if seconds >= 60:
                world.judge.on_minutes([MinuteTotal("vehicle", minute_ms, 1_000, 500)])

        changes = world.passes(600, answer)
        assert ("curve:vehicle:open" in changes) is not is_standing
        assert ("standing:ingest:open" in changes) is is_standing


def test_records_lost_to_retention_are_an_incident_with_their_count() -> None:
    """Within seconds: every minute of waiting costs more."""
    world = JudgedMinutes()

    def answer() -> None:
        end = (world.now_ms - BEGIN) // 1000 + 1_000
        world.judge.on_stage(StageOffsets("ingest", {TP: 100}, {TP: end}, {TP: 350}))

    assert world.passes(20, answer) == ["lost:ingest+watchlist:open"]
    assert world.incidents[0].detail["lost"] == "250"


def test_one_loss_of_several_stages_is_one_incident_that_names_each() -> None:
    """What broke: one loss of 220 records made an incident for each stage that had not read them.
    Stages of other topics are no part of it."""
    world = JudgedMinutes()

    def answer() -> None:
        world.judge.on_processes([ProcessStatus(role="streams", state="backoff")])
        for stage, position in (("ingest", 100), ("watchlist", 120)):
            world.judge.on_stage(StageOffsets(stage, {TP: position}, {TP: 400}, {TP: 320}))
        meters = ("meter.quality", 0)
        world.judge.on_stage(StageOffsets("quality", {meters: 5}, {meters: 5}, {meters: 0}))

    found = [one for one in world.passes(60, answer) if one.startswith("lost")]
    assert found == ["lost:ingest+watchlist:open"]
    [told] = [one for one in world.incidents if one.kind == "lost"]
    assert told.detail["lost"] == "220"
    assert told.detail["applications"] == "ingest 220, watchlist 200"


STAGES_OF_ONE_DRIVER = {
    "ingest": "data.vehicle", "watchlist": "data.vehicle", "quality": "meter.quality",
    "latency": "meter.latency",
}  # fmt: skip


@given(
    dead_s=st.integers(0, 90),
    start_s=st.integers(0, 300),
    order=st.permutations(sorted(STAGES_OF_ONE_DRIVER)),
)
@settings(max_examples=15, deadline=None)
def test_one_dead_driver_is_one_incident_however_slowly_it_starts(
    dead_s: int, start_s: int, order: list[str]
) -> None:
    """It dies, is started again, and reads after a while, one stage after the other. What broke:
    its three stages stood besides, each with an incident of its own."""
    world, began = JudgedMinutes(), BEGIN + 30_000

    def answer() -> None:
        since_s = (world.now_ms - began) / 1_000
        state, pid = ("running", 1) if since_s < 0 else ("running", 2)
        if 0 <= since_s < dead_s:
            state = "backoff"
        world.judge.on_processes([ProcessStatus(role="streams", state=state, pid=pid)])
        for number, stage in enumerate(order):
            place = (STAGES_OF_ONE_DRIVER[stage], 0)
            reads = since_s < 0 or since_s >= dead_s + start_s + 5 * number
            end = 1_000 + (world.now_ms - BEGIN) // 1_000
            position = end if reads else 1_030
            world.judge.on_stage(StageOffsets(stage, {place: position}, {place: end}, {place: 0}))

    changes = world.passes(30 + dead_s + start_s + 60, answer)
    opened = [one for one in changes if one.endswith(":open") and not one.startswith("backlog")]
    standing = [one for one in opened if one.startswith("standing")]
    assert len(standing) <= 1, changes
    assert len(opened) - len(standing) <= 1
    if start_s + 5 * len(order) < 120:
        assert standing == [], "a start may take as long as the first"
    if standing:
        [told] = [o for o in world.incidents if o.kind == "standing" and o.state == "open"]
        assert set(told.detail.get("stages", told.detail["subject"]).split()) <= set(order)
    assert not [one for one in world.judge.open_incidents() if one.kind != "backlog"]
