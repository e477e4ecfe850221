"""A stage that stands, is behind, or has lost records to retention."""

from __future__ import annotations

from monitor.watch.progress import ProgressBounds, StageOffsets, StageProgress

TP = ("data.vehicle", 0)
STEP_MS = 5_000


class Stage:
    """One stage, sampled every five seconds."""

    def __init__(self) -> None:
        self.progress = StageProgress(ProgressBounds())
        self.now_ms = 0

    def sample(
        self, position: int | None, end: int, start: int = 0, *, away: bool = False
    ) -> dict[str, tuple[bool | None, dict[str, str]]]:
        """The conditions by kind."""
        self.now_ms += STEP_MS
        positions = None if position is None else {TP: position}
        found = StageOffsets("ingest", "streams", positions, {TP: end}, {TP: start})
        conditions = self.progress.observe(found, self.now_ms, is_process_away=away)
        return {one.kind: (one.is_bad, dict(one.detail)) for one in conditions}


def bad(found: dict[str, tuple[bool | None, dict[str, str]]]) -> set[str]:
    return {kind for kind, (is_bad, _) in found.items() if is_bad}


def test_a_stage_that_keeps_up_is_well() -> None:
    """And so is one for which nothing comes."""
    stage = Stage()
    for end in range(0, 10_000, 100):
        assert bad(stage.sample(max(0, end - 50), end)) == set()
    for _ in range(50):
        assert bad(stage.sample(9_900, 9_900)) == set()


def test_a_stage_stands_while_records_wait_and_its_position_does_not_move() -> None:
    """The bound of thirty seconds is the tracker's; a single step forward ends it."""
    stage = Stage()
    stage.sample(100, 100)
    assert bad(stage.sample(100, 150)) == {"standing"}
    assert bad(stage.sample(101, 200)) == set()


def test_a_backlog_is_told_in_records_and_in_seconds() -> None:
    """It reads 10 of every 100 records: it is behind by the time since its position was the end."""
    stage = Stage()
    found = {}
    for n in range(1, 60):
        found = stage.sample(10 * n, 100 * n)
    is_bad, detail = found["backlog"]
    assert is_bad
    assert detail["stage"] == "ingest"
    assert int(detail["records"]) == 90 * 59
    assert int(detail["behind_ms"]) == 54 * STEP_MS  # 590 was the end between samples 5 and 6


def test_a_backlog_of_many_records_is_told_before_it_is_old() -> None:
    """A hundred thousand at once."""
    stage = Stage()
    stage.sample(10, 10)
    assert bad(stage.sample(11, 200_000)) == {"backlog"}


def test_records_lost_to_retention_are_counted() -> None:
    """The log begins behind the position."""
    stage = Stage()
    is_bad, detail = stage.sample(100, 1_000, start=350)["lost"]
    assert (is_bad, detail["lost"], detail["topics"]) == (True, "250", "data.vehicle")
    assert stage.sample(360, 1_000, start=350)["lost"][0] is False


def test_nothing_is_said_of_a_stage_whose_positions_are_unknown() -> None:
    """The store is away: that is an incident of its own."""
    found = Stage().sample(None, 1_000)
    assert {is_bad for is_bad, _ in found.values()} == {None}


def test_a_dead_process_is_one_incident_and_not_three() -> None:
    """That it stands, and falls behind, is said by its absence."""
    stage = Stage()
    stage.sample(100, 100)
    for end in range(200, 10_000, 100):
        assert bad(stage.sample(100, end, away=True)) == set()


def test_topics_made_again_are_no_backlog_of_an_hour() -> None:
    """Their ends begin at nothing."""
    stage = Stage()
    for n in range(100):
        stage.sample(1_000 * n, 1_000 * n)
    found = stage.sample(5, 10)
    assert found["backlog"][1]["behind_ms"] == "0"
