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
    waiting_for,
)
from deploy.secure.conversion_file import is_converting, read_stage, write_stage
from deploy.secure.layout import CONVERSION_FILE

STAGES = st.sampled_from(ConversionStage)
OPEN, BOTH, BROKERS, PROCESSES, CLOSED = ConversionStage


def run_with(recorded: ConversionStage) -> ConversionStage:
    """What a broker is seen at once it has started with that record."""
    return BROKERS if recorded is PROCESSES else recorded


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


WORDS = st.sampled_from(["next", "back", "crash"])


@given(st.lists(st.tuples(WORDS, st.integers(0, 4)), max_size=80), st.integers(1, 5))
def test_brokers_of_one_machine_reach_each_other_whatever_is_killed(
    events: list[tuple[str, int]], brokers: int
) -> None:
    """A command records a stage and restarts some of the late brokers, then it is killed; a broker that crashes starts
    with what is recorded."""
    recorded, observed = OPEN, dict.fromkeys(range(brokers), OPEN)
    for word, number in events:
        if word == "crash":
            observed[number % brokers] = run_with(recorded)
            assert may_work_together(observed.values())
            continue
        if word == "back" or not late_brokers(observed, recorded):
            target = preceding(recorded) if word == "back" else following(recorded)
            if target is not None and not blocked_by(observed, target):
                recorded = target
        for late in late_brokers(observed, recorded)[:number]:
            assert not blocked_by(observed, recorded)
            observed[late] = run_with(recorded)
            assert may_work_together(observed.values())
    for late in late_brokers(observed, recorded):
        assert not blocked_by(observed, recorded)
        observed[late] = run_with(recorded)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=80), st.integers(1, 5))
def test_brokers_of_several_machines_reach_each_other_in_whatever_order_the_command_is_given(
    commands: list[tuple[bool, int]], machines: int
) -> None:
    recorded = dict.fromkeys(range(machines), OPEN)
    observed = dict(recorded)
    for is_back, number in commands:
        here = number % machines
        if not is_back and waiting_for(observed, recorded[here]):
            continue
        target = (preceding if is_back else following)(recorded[here])
        if target is None or blocked_by(observed, target):
            continue
        recorded[here], observed[here] = target, run_with(target)
        assert may_work_together(observed.values())


def test_machines_in_turn_come_all_the_way() -> None:
    recorded = dict.fromkeys((1, 2, 3), OPEN)
    observed = dict(recorded)
    for target in list(ConversionStage)[1:]:
        for here in recorded:
            assert not waiting_for(observed, recorded[here])
            assert not blocked_by(observed, target)
            recorded[here], observed[here] = target, run_with(target)
    assert set(observed.values()) == {CLOSED}


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
