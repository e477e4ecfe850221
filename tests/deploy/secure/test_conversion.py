"""What a machine may do on the way from open to closed, whatever the others are at and wherever it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.errors import OperatorError
from deploy.secure.broker_keys import ConversionStage
from deploy.secure.conversion import (
    PlainClient,
    PlainClientReport,
    blocked_by,
    closing_obstacles,
    following,
    late_brokers,
    may_work_together,
    preceding,
)
from deploy.secure.conversion_file import is_converting, read_stage, write_stage
from deploy.secure.layout import CONVERSION_FILE

STAGES = st.sampled_from(ConversionStage)
OPEN, BOTH, BROKERS, PROCESSES, CLOSED = ConversionStage


def test_every_stage_is_passed_and_none_is_left_out() -> None:
    passed, stage = [OPEN], following(OPEN)
    while stage is not None:
        passed.append(stage)
        stage = following(stage)
    assert passed == list(ConversionStage)
    for stage in passed[1:-1]:
        before = preceding(stage)
        assert before is not None
        assert following(before) is stage
    assert preceding(OPEN) is preceding(CLOSED) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=60), st.integers(1, 5))
def test_brokers_reach_each_other_whatever_is_killed_in_between(
    commands: list[tuple[bool, int]], brokers: int
) -> None:
    """One machine: a command records a stage once all brokers are at the last one, or turns back; it restarts some of
    the late ones and is killed."""
    recorded, observed = OPEN, dict.fromkeys(range(1, brokers + 1), OPEN)
    for is_back, restarts in commands:
        late = late_brokers(observed, recorded)
        if is_back:
            recorded = preceding(recorded) or recorded
        elif not late:
            target = following(recorded) or recorded
            assert not blocked_by(observed, target)
            recorded = target
        for number in late_brokers(observed, recorded)[:restarts]:
            if blocked_by(observed, recorded):
                break
            observed[number] = recorded.of_brokers
            assert may_work_together(observed.values())
    while late_brokers(observed, recorded) and not blocked_by(observed, recorded):
        observed[late_brokers(observed, recorded)[0]] = recorded.of_brokers
    assert may_work_together(observed.values())


@given(st.dictionaries(st.integers(1, 5), STAGES, min_size=1), STAGES)
def test_a_broker_that_would_not_reach_the_others_is_not_restarted(
    observed: dict[int, ConversionStage], target: ConversionStage
) -> None:
    blocked = blocked_by(observed, target)
    alone = all(may_work_together([at, target]) for at in observed.values())
    assert (not blocked) is alone


def client(age_s: float, broker: int = 1) -> PlainClient:
    return PlainClient(broker, "PLAINTEXT", "10.0.0.7", "camera-7", age_s)


def test_who_still_comes_in_plain_is_named_by_address_and_client() -> None:
    [told] = closing_obstacles([PlainClientReport(1, 9_999.0, (client(59.0), client(601.0)))], [1], [], 600.0)
    assert "camera-7 from 10.0.0.7, 59 s ago at broker 1 (PLAINTEXT)" in told


def test_a_broker_that_has_just_started_does_not_know_who_comes() -> None:
    assert closing_obstacles([PlainClientReport(1, 599.0)], [1], [], 600.0) == (
        "broker 1 has watched for 599 s only, of 600",
    )
    assert closing_obstacles([PlainClientReport(1, 600.0)], [1], [], 600.0) == ()


def test_a_broker_that_cannot_be_asked_is_no_proof() -> None:
    [told] = closing_obstacles([PlainClientReport(1, 700.0)], [1, 2], [], 600.0)
    assert told.startswith("broker 2 could not be asked")


def test_a_process_of_ours_that_has_not_moved_is_named() -> None:
    [told] = closing_obstacles([PlainClientReport(1, 700.0)], [1], ["edge"], 600.0)
    assert told.startswith("edge ")


@pytest.mark.parametrize("stage", ConversionStage)
def test_a_recorded_stage_is_read_again(stage: ConversionStage, tmp_path: Path) -> None:
    assert read_stage(tmp_path) is CLOSED
    assert not is_converting(tmp_path)
    write_stage(tmp_path, stage)
    assert read_stage(tmp_path) is stage
    assert is_converting(tmp_path)
    assert (tmp_path / CONVERSION_FILE).stat().st_mode & 0o077 == 0


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(max_size=9), st.lists, max_leaves=5).map(
        lambda value: json.dumps({"stage": value}).encode()
    )
)
def test_a_file_that_names_no_stage_is_refused_and_never_taken_for_one(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / CONVERSION_FILE).write_bytes(data)
    with pytest.raises(OperatorError, match="does not say how far"):
        read_stage(folder)
