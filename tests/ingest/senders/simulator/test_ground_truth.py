"""The truth adds up, survives a kill at any byte, and stays small."""

from __future__ import annotations

import random
from pathlib import Path

from ingest.senders.simulator.ground_truth import (
    RecordLine,
    RuleLine,
    RunLine,
    read_truth,
    truth_files,
)
from ingest.senders.simulator.ground_truth_log import TruthLog
from ingest.senders.simulator.recovery import unfinished_runs


def run_line(name: str = "a") -> RunLine:
    return RunLine(name, "main", 1, 1000)


def record(n: int, *, via: str = "edge", expected: str = "valid", **more: object) -> RecordLine:
    return RecordLine(
        n=n, id=f"id{n}", topic="data.vehicle", kind="vehicle", camera_ip=f"10.0.0.{n % 3}",
        minute_ms=60_000 * (n // 10), via=via, expected=expected, **more,
    )  # type: ignore[arg-type]  # fmt: skip


def test_acknowledged_records_are_sent_and_the_rest_is_unconfirmed(tmp_path: Path) -> None:
    log = TruthLog(tmp_path, run_line())
    log.rules([RuleLine("r1", "stolen", "浙AY0001")])
    log.records([record(0), record(1, expected="not-json"), record(2, via="bus"), record(3)])
    log.sent([0, 1], {0: "id0"}, {1: "not-json"})
    log.sent([2])
    totals = read_truth(truth_files(tmp_path))
    counts = totals.topics["data.vehicle"]
    assert (counts.sent, counts.valid, dict(counts.rejected)) == (3, 2, {"not-json": 1})
    assert [r.n for r in totals.unconfirmed] == [3]
    assert totals.tried("data.vehicle") == 4
    assert totals.rules == {"r1"}
    assert totals.disagreements == 0
    assert log.pending == 1


def test_an_alarm_is_expected_under_the_id_that_the_edge_gave(tmp_path: Path) -> None:
    log = TruthLog(tmp_path, run_line())
    log.records([record(0, alarms=("r1",)), record(1, via="bus", alarms=("r1", "r2"))])
    log.sent([0, 1], {0: "other"})
    totals = read_truth(truth_files(tmp_path))
    assert totals.alarms == {("r1", "other"), ("r1", "id1"), ("r2", "id1")}
    assert totals.ids["data.vehicle"] == {"other", "id1"}


def test_an_answer_that_is_not_the_expected_one_is_a_disagreement(tmp_path: Path) -> None:
    log = TruthLog(tmp_path, run_line())
    log.records([record(0), record(1, expected="bad-time"), record(2, expected="bad-time")])
    log.sent([0, 1, 2], rejected={0: "no-time", 1: "bad-time"})
    assert read_truth(truth_files(tmp_path)).disagreements == 2


def test_folding_finished_parts_changes_no_total(tmp_path: Path) -> None:
    rng = random.Random(7)
    small, whole = tmp_path / "small", tmp_path / "whole"
    logs = [TruthLog(small, run_line(), part_bytes=2000), TruthLog(whole, run_line())]
    reasons = ("valid", "valid", "not-json", "bad-time")
    waiting: list[int] = []
    for start in range(0, 400, 20):
        fresh = [
            record(n, expected=reasons[n % 4], alarms=("r1",) if n % 8 == 0 else ())
            for n in range(start, start + 20)
        ]
        waiting += range(start, start + 20)
        rng.shuffle(waiting)
        answered, waiting = waiting[:17], waiting[17:]
        for log in logs:
            log.rules([RuleLine("r1", "n", "p")]) if start == 0 else None
            log.records(fresh)
            log.sent(answered, {}, {n: reasons[n % 4] for n in answered if n % 4 > 1})
    for log in logs:
        log.close(5, 0)
    a, b = read_truth(truth_files(small)), read_truth(truth_files(whole))
    assert a.topics == b.topics
    assert (a.alarms, a.rules, a.disagreements) == (b.alarms, b.rules, 0)
    assert {r.n for r in a.unconfirmed} == {r.n for r in b.unconfirmed} == set(waiting)
    size = sum(path.stat().st_size for path in truth_files(small))
    assert size < 0.7 * sum(path.stat().st_size for path in truth_files(whole))


def test_a_log_that_is_cut_anywhere_still_reads_and_never_confirms_too_much(tmp_path: Path) -> None:
    log = TruthLog(tmp_path / "whole", run_line())
    for n in range(12):
        log.records([record(n)])
        if n % 2:
            log.sent([n - 1, n])
    text = truth_files(tmp_path / "whole")[0].read_bytes()
    torn = tmp_path / "truth-a.0000.jsonl"
    last = 0
    for cut in range(0, len(text), 13):
        torn.write_bytes(text[:cut])
        totals = read_truth([torn])
        confirmed = totals.topics["data.vehicle"].sent if totals.topics else 0
        assert last <= confirmed <= text[:cut].count(b'"line":"record"')
        last = confirmed


def test_two_runs_with_the_same_numbers_do_not_mix(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log = TruthLog(tmp_path, run_line(name))
        log.records([record(0), record(1)])
        log.sent([0])
        log.close(9, 3)
    totals = read_truth(truth_files(tmp_path))
    assert totals.topics["data.vehicle"].sent == 2
    assert len(totals.unconfirmed) == 2
    assert (totals.runs, totals.ended_runs, totals.skipped) == ({"a", "b"}, 2, 6)


def test_only_a_killed_run_owes_counters_and_only_until_they_are_told(tmp_path: Path) -> None:
    ended = TruthLog(tmp_path, run_line("a"))
    ended.records([record(0)])
    ended.close(9, 0)
    killed = TruthLog(tmp_path, run_line("b"))
    killed.records([record(n) for n in range(25)])
    path = truth_files(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + b'{"line":"rec')  # torn by the kill
    [owed] = unfinished_runs(truth_files(tmp_path))
    assert sum(counter.sent for counter in owed.counters) == 25
    assert {counter.epoch for counter in owed.counters} == {1000}
    owed.finish(10)
    assert list(unfinished_runs(truth_files(tmp_path))) == []
    assert read_truth(truth_files(tmp_path)).ended_runs == 2


def test_a_minute_that_spans_two_parts_is_owed_as_a_whole(tmp_path: Path) -> None:
    """The part before the newest was once folded at once, and with it half of its last minute."""
    log = TruthLog(tmp_path, run_line(), part_bytes=3000)
    for n in range(100):
        log.records([record(n)])
        log.sent([n])
    assert len(truth_files(tmp_path)) > 3
    [owed] = unfinished_runs(truth_files(tmp_path))
    last_minute = [c.sent for c in owed.counters if c.minute_ms == 60_000 * 9]
    assert sum(last_minute) == 10
    newest_parts = truth_files(tmp_path)[-2:]
    counted = [sum(b'"line":"record"' in line for line in p.open("rb")) for p in newest_parts]
    assert min(counted) > 0
