"""Records missing between edge and bus: named by device and slot, once, and with an end."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from monitor.watch.missing import MAX_DEVICES, MAX_SLOTS, OTHERS, MissingJudge, MissingRecords
from monitor.watch.progress import StageOffsets
from tests.monitor.watch.test_judge import BEGIN, TP, JudgedMinutes

MINUTE = 1_503_566_700_000  # 17:25 in Shanghai


def missing(device: str, minute: int = 0, records: int = 1) -> MissingRecords:
    return MissingRecords("vehicle", device, MINUTE + minute * 60_000, records)


def test_a_device_is_named_with_its_slots_in_local_time() -> None:
    judge = MissingJudge(ZoneInfo("Asia/Shanghai"))
    (condition,) = judge.observe([missing("10.0.0.1", 1, 6), missing("10.0.0.1", 0, 4)])
    assert (condition.kind, condition.is_bad) == ("missing", True)
    assert condition.subject == "vehicle 10.0.0.1"
    assert condition.detail == {
        "class": "vehicle",
        "address": "10.0.0.1",
        "missing": "10",
        "slots": "08-24 17:25 (4), 08-24 17:26 (6)",
    }


def test_what_is_told_is_bounded() -> None:
    """Of ten thousand devices the first are named and the others counted."""
    judge = MissingJudge(ZoneInfo("UTC"))
    many = [missing(f"10.0.{n // 250}.{n % 250}", m) for n in range(10_000) for m in range(12)]
    found = {condition.subject: condition.detail for condition in judge.observe(many)}
    assert len(found) == MAX_DEVICES + 1
    others = 10_000 - MAX_DEVICES
    assert found[OTHERS] == {"devices": str(others), "missing": str(12 * others)}
    named = next(detail for subject, detail in found.items() if subject != OTHERS)
    assert named["slots"].endswith(f", +{12 - MAX_SLOTS}")


def test_what_heals_within_the_bound_is_not_told_and_what_stays_is_told_once_with_its_end() -> None:
    world = JudgedMinutes()
    slots = [missing("10.0.0.1")]
    assert world.passes(60, lambda: world.judge.on_missing(slots)) == []
    assert world.passes(60, lambda: world.judge.on_missing([])) == []
    lasting = [missing("10.0.0.2", records=10)]
    assert world.passes(300, lambda: world.judge.on_missing(lasting)) == [
        "missing:vehicle 10.0.0.2:open"
    ]
    assert world.incidents[0].detail["missing"] == "10"
    assert world.passes(60, lambda: world.judge.on_missing([])) == [
        "missing:vehicle 10.0.0.2:closed"
    ]


def test_while_ingest_is_behind_nothing_is_missing() -> None:
    """What it has not read cannot have been found."""
    world = JudgedMinutes()

    def answer() -> None:
        seconds = (world.now_ms - BEGIN) // 1000
        ends, place = {TP: 1_000_000 + seconds}, {TP: seconds}
        world.judge.on_stage(StageOffsets("ingest", place, ends, {TP: 0}))
        if seconds > 10:
            world.judge.on_missing([missing("10.0.0.1")])

    assert world.passes(300, answer) == ["backlog:ingest:open"]
