"""A stage that stands, is behind, or has lost records to retention."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.watch.losses import StageLoss
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
        found = StageOffsets("ingest", positions, {TP: end}, {TP: start})
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
    """For the thirty seconds of its bound; a single step forward ends it."""
    stage = Stage()
    stage.sample(100, 100)
    seen = [bad(stage.sample(100, 150)) for _ in range(7)]
    assert seen == [set()] * 5 + [{"standing"}] * 2
    assert bad(stage.sample(101, 200)) == set()


def partitions(positions: list[int], ends: list[int]) -> StageOffsets:
    """One topic with so many partitions."""
    places = [("data.vehicle", number) for number in range(len(ends))]
    return StageOffsets(
        "ingest", dict(zip(places, positions, strict=True)), dict(zip(places, ends, strict=True)),
        dict.fromkeys(places, 0),
    )  # fmt: skip


def test_one_stuck_partition_of_sixteen_stands_though_all_others_go_on() -> None:
    """Sums over all partitions always moved, so it stood unseen; now the worst is told."""
    progress, found = StageProgress(ProgressBounds()), {}
    for second in range(0, 60, 5):
        ends = [1_000 * second] * 16
        positions = [40, *ends[1:]]
        conditions = progress.observe(
            partitions(positions, ends), second * 1_000, is_process_away=False
        )
        found = {one.kind: one for one in conditions}
    assert found["standing"].is_bad
    assert found["standing"].detail["behind_ms"] == "55000"
    assert found["standing"].detail["records"] == str(55_000 - 40)
    assert not found["backlog"].is_bad


def test_the_seconds_of_a_backlog_are_those_of_the_partition_that_is_furthest_behind() -> None:
    """Averaged over sixteen, one that is an hour behind was four minutes behind."""
    progress, found = StageProgress(ProgressBounds()), {}
    for second in range(0, 600, 5):
        ends = [100 * second] * 16
        positions = [second, *ends[1:]]
        conditions = progress.observe(
            partitions(positions, ends), second * 1_000, is_process_away=False
        )
        found = {one.kind: one for one in conditions}
    assert found["backlog"].is_bad
    assert int(found["backlog"].detail["behind_ms"]) >= 580_000
    assert not found["standing"].is_bad


def test_batches_that_move_the_partitions_by_turns_stand_nowhere() -> None:
    """At each look some partition has not moved, never the same for long."""
    progress = StageProgress(ProgressBounds())
    position = [0, 0, 0, 0]
    for step in range(200):
        end = 10 * (step + 4)
        position[step % 4] = end
        conditions = progress.observe(
            partitions(list(position), [end] * 4), 5_000 * step, is_process_away=False
        )
        assert [one.kind for one in conditions if one.is_bad] == []


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.booleans()), max_size=60),
)
def test_what_is_told_is_bounded_by_the_time_that_has_passed(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Whatever positions and ends do: back, forth, made again."""
    progress = StageProgress(ProgressBounds())
    for step, (position, end, away) in enumerate(steps):
        found = partitions([position, end], [end, end])
        for one in progress.observe(found, step * 1_000, is_process_away=away):
            if one.kind == "standing":
                assert 0 <= int(one.detail["behind_ms"]) <= step * 1_000
                assert not (one.is_bad and (away or step < 30))


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
    """The log begins behind the position of a stage that does not read, or is away."""
    stage = Stage()
    stage.sample(100, 1_000, start=0)
    stage.sample(100, 1_000, start=350)
    assert stage.progress.loss == StageLoss(True, {TP: 250})
    stage.sample(360, 1_000, start=350)
    assert stage.progress.loss == StageLoss(False)
    stage.sample(370, 1_000, start=400, away=True)
    assert stage.progress.loss == StageLoss(True, {TP: 30})


def test_what_a_stage_meets_that_reads_it_tells_by_itself() -> None:
    """Its driver has an incident of its own: the same loss was told twice."""
    stage = Stage()
    for n in range(20):
        stage.sample(100 * n, 100 * n + 1_000, start=100 * n + 50)
        assert not stage.progress.loss.is_certain


def test_a_stage_stands_on_while_nothing_of_a_topic_made_anew_is_read() -> None:
    """What broke: its former position lay behind the new topic's end, so that nothing seemed to
    wait, and the incident was closed with 90 records unread."""
    stage = Stage()
    stage.sample(1_000, 1_000)
    for _ in range(8):
        found = stage.sample(1_000, 1_103)
    assert bad(found) == {"standing"}
    for _ in range(8):
        assert bad(stage.sample(0, 90)) >= {"standing"}
    assert bad(stage.sample(90, 90)) == set()


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
