"""Each rule lets a sound history pass and catches the bug it is there for."""

from __future__ import annotations

from tests.checker.history import (
    Ack,
    AnyEvent,
    Commit,
    CommittedEvent,
    Deleted,
    Healed,
    OutOfRange,
    Poll,
    ReplicaStateEvent,
    Reset,
    SendEvent,
    TransactionEvent,
    from_lines,
    to_line,
)
from tests.checker.rules import check

VALUES = ["a", "b", "c"]


def send(op: int, value: str, offset: int | None, at_ms: int = 0, **more: object) -> list[AnyEvent]:
    made = SendEvent(
        at_ms=at_ms, op=op, producer="p", topic="t", partition=0, value=value,
        idempotent=True, ordered=True, **more,
    )  # fmt: skip
    return [made] if offset is None else [made, Ack(at_ms=at_ms, op=op, offset=offset)]


def poll(
    position: int, values: list[str], *, at_ms: int = 10, assignment: str = "c/1", **more: object
) -> Poll:
    records = [(position + index, value) for index, value in enumerate(values)]
    settings: dict[str, object] = {"next": position + len(values), "records": records} | more
    return Poll(
        at_ms=at_ms, consumer="c", assignment=assignment, topic="t", partition=0,
        position=position, **settings,
    )  # fmt: skip


def sound() -> list[AnyEvent]:
    events: list[AnyEvent] = []
    for op, value in enumerate(VALUES):
        events += send(op, value, op)
    events.append(poll(0, VALUES, from_beginning=True))
    events.append(Healed(at_ms=50))
    events.append(poll(0, VALUES, from_beginning=True, at_ms=60, assignment="c/2"))
    for broker in (1, 2):
        events.append(
            ReplicaStateEvent(
                broker=broker, topic="t", partition=0, log_start=0, high_watermark=3,
                batches=[(0, 1, 0, "x"), (2, 2, 1, "y")],
            )
        )  # fmt: skip
    return events


def rules_broken(events: list[AnyEvent]) -> set[int]:
    return {violation.rule for violation in check(events)}


def test_a_sound_history_breaks_no_rule():
    """Three values, written, read twice, the same on two replicas."""
    assert check(sound()) == []


def test_a_history_survives_its_file():
    """Every event as a line and back."""
    events = sound()
    assert list(from_lines(to_line(event) for event in events)) == events


def test_rule_1_two_observers_see_different_values_at_one_offset():
    """Divergent replicas served one after the other."""
    events = [*send(0, "a", 0), *send(1, "b", None), poll(0, ["a"]), poll(0, ["b"], assignment="d")]
    assert 1 in rules_broken(events)


def test_rule_1_what_was_acknowledged_at_an_offset_stands_there():
    """An acknowledged value was overwritten after an election."""
    assert 1 in rules_broken([*send(0, "a", 0), *send(1, "b", None), poll(0, ["b"])])


def test_rule_2_a_value_of_an_idempotent_producer_stands_twice():
    """A retry was appended again because the producer's state was lost."""
    assert rules_broken([*send(0, "a", 0), poll(0, ["a", "a"])]) == {2}


def test_rule_3_an_acknowledged_value_is_not_where_others_are_read_beyond_it():
    """A hole in the log."""
    events = [*send(0, "a", 0), *send(1, "b", 1), *send(2, "c", 2)]
    events.append(poll(0, [], records=[(0, "a"), (2, "c")], next=3, from_beginning=True))
    assert 3 in rules_broken(events)


def test_rule_3_lets_pass_what_was_deleted_on_purpose():
    """DeleteRecords below 1."""
    events = [
        *send(0, "a", 0), *send(1, "b", 1), Deleted(topic="t", partition=0, before=1),
        poll(1, ["b"], from_beginning=True),
    ]  # fmt: skip
    assert check(events) == []


def test_rule_4_an_acknowledged_value_is_gone_after_healing():
    """The end of the log was lost; no reader goes beyond it."""
    events = [*send(0, "a", 0), *send(1, "b", 1), Healed(at_ms=50)]
    events.append(poll(0, ["a"], from_beginning=True, at_ms=60))
    assert rules_broken(events) == {4}


def transaction(name: str, *states: str) -> list[AnyEvent]:
    return [TransactionEvent(id=name, state=state) for state in states]


def test_rule_5_a_value_of_an_aborted_transaction_is_read():
    """G1a."""
    events = [*send(0, "a", 0, transaction="x"), *transaction("x", "begun", "committing", "aborted")]
    assert rules_broken([*events, poll(0, ["a"], read_committed=True)]) == {5}
    assert check([*events, poll(0, ["a"])]) == []


def test_rule_6_a_value_is_read_before_its_transaction_is_committed():
    """The last stable offset ran ahead."""
    before = [*send(0, "a", 0, transaction="x"), poll(0, ["a"], read_committed=True)]
    assert rules_broken([*before, *transaction("x", "committing", "committed")]) == {6}


def test_rule_7_a_consumer_goes_back():
    """The position fell within one assignment."""
    events = [*send(0, "a", 0), *send(1, "b", 1), poll(0, ["a", "b"]), poll(1, ["b"])]
    assert rules_broken(events) == {7}


def test_rule_7_a_consumer_skips_what_another_has_seen():
    """A fetch answered from the wrong place."""
    events = [*send(0, "a", 0), *send(1, "b", 1), poll(0, ["a", "b"])]
    events.append(poll(0, [], records=[(1, "b")], next=2, assignment="d"))
    assert rules_broken(events) == {7}


def test_rule_8_order_within_one_transaction_is_kept():
    """A transaction that polls with a gap, and one whose sends changed places."""
    gap = [poll(0, ["a"], transaction="x"), poll(2, ["c"], transaction="x", assignment="d")]
    assert 8 in rules_broken(gap)
    swapped = [*send(0, "a", 5, transaction="x"), *send(1, "b", 4, transaction="x")]
    assert 8 in rules_broken(swapped)


def test_rule_9_sends_of_one_producer_change_places():
    """A retried batch behind a later one."""
    assert rules_broken([*send(0, "a", 1), *send(1, "b", 0)]) == {9}


def test_rule_10_two_transactions_read_each_other():
    """A cycle of reads among committed transactions."""
    events = [
        *send(0, "a", 0, transaction="x"), *send(1, "b", 1, transaction="y"),
        *transaction("x", "committing"), *transaction("y", "committing"),
        poll(0, ["a"], read_committed=True, transaction="y"),
        poll(1, ["b"], read_committed=True, transaction="x", assignment="d"),
        *transaction("x", "committed"), *transaction("y", "committed"),
    ]  # fmt: skip
    assert rules_broken(events) == {10}


def commit(op: int, offset: int, *outcomes: str, at_ms: int = 20) -> list[AnyEvent]:
    return [
        Commit(at_ms=at_ms, op=op, group="g", topic="t", partition=0, offset=offset, outcome=one)
        for one in outcomes
    ]


def committed_at(offset: int, at_ms: int = 30) -> CommittedEvent:
    return CommittedEvent(at_ms=at_ms, asked_ms=at_ms, group="g", topic="t", partition=0, offset=offset)


def test_rule_11_a_committed_offset_goes_back():
    """A new coordinator lost the last commit."""
    polled = poll(0, VALUES, group="g")
    both = [*commit(1, 2, "asked", "ok"), *commit(2, 3, "asked", "ok")]
    assert rules_broken([polled, *both, committed_at(2)]) == {11}
    assert check([polled, *both, committed_at(3)]) == []


def test_rule_11_a_commit_without_an_answer_may_or_may_not_count():
    """Both answers of the coordinator are right."""
    polled = poll(0, VALUES, group="g")
    both = [*commit(1, 2, "asked", "ok"), *commit(2, 3, "asked")]
    assert check([polled, *both, committed_at(2)]) == []
    assert check([polled, *both, committed_at(3)]) == []


def test_rule_11_nothing_is_committed_that_was_not_polled_or_by_nobody():
    """A commit past the position, and an answer out of nowhere."""
    assert rules_broken([poll(0, ["a"], group="g"), *commit(1, 2, "asked", "ok")]) == {11}
    assert rules_broken([poll(0, ["a"], group="g"), committed_at(1)]) == {11}


def test_rule_11_a_reset_may_go_back():
    """Set by hand to an earlier offset."""
    events = [poll(0, VALUES, group="g"), *commit(1, 3, "asked", "ok")]
    events.append(Reset(at_ms=25, group="g", topic="t", partition=0, offset=1))
    assert check([*events, committed_at(1)]) == []


def out_of_range(start: int, at_ms: int = 25) -> OutOfRange:
    return OutOfRange(at_ms=at_ms, group="g", topic="t", partition=0, start=start)


def back_to(offset: int, *outcomes: str) -> list[AnyEvent]:
    """The group had committed 3, and commits an offset before it after a member was out of range."""
    events = [poll(0, VALUES, group="g"), *commit(1, 3, "asked", "ok", at_ms=20)]
    return [*events, out_of_range(1), *commit(2, offset, "asked", *outcomes, at_ms=30)]


def test_rule_11_a_member_that_was_out_of_range_may_go_back_to_where_the_log_begins():
    """The records at its position were deleted by a leader, and another one still has earlier ones
    (found by the simulation, seed 71071). An unanswered commit may have happened or not."""
    assert check([*back_to(2, "ok"), committed_at(2, 40)]) == []
    assert check([*back_to(2), committed_at(2, 40)]) == []
    assert check([*back_to(2), committed_at(3, 40)]) == []


def test_rule_11_nobody_goes_back_below_where_the_log_begins_nor_without_a_commit():
    """A coordinator that loses commits while a member is out of range."""
    assert rules_broken([*back_to(0, "ok"), committed_at(0, 40)]) == {11}
    events = [poll(0, VALUES, group="g"), *commit(1, 2, "asked", "ok"), *commit(2, 3, "asked", "ok")]
    assert rules_broken([*events, out_of_range(1), committed_at(2, 40)]) == {11}


def test_rule_11_what_was_before_a_group_went_back_does_not_return():
    """The commit that went back was acknowledged, and is lost."""
    assert rules_broken([*back_to(2, "ok"), committed_at(3, 40)]) == {11}


def test_rule_11_a_group_goes_back_once():
    """Neither again, nor after it has gone on beyond what it had."""
    again = [*commit(3, 3, "asked", "ok", at_ms=50), *commit(4, 2, "asked", "ok", at_ms=60)]
    assert rules_broken([*back_to(2, "ok"), *again, committed_at(2, 70)]) == {11}
    beyond = [
        poll(0, VALUES, group="g"), *commit(1, 2, "asked", "ok"), out_of_range(1),
        *commit(2, 3, "asked", "ok", at_ms=30), *commit(3, 2, "asked", "ok", at_ms=50),
    ]  # fmt: skip
    assert rules_broken([*beyond, committed_at(2, 60)]) == {11}


def replica(broker: int, *batches: tuple[int, int, int, str], watermark: int = 3) -> ReplicaStateEvent:
    return ReplicaStateEvent(
        broker=broker, topic="t", partition=0, log_start=0, high_watermark=watermark,
        batches=list(batches),
    )  # fmt: skip


def test_rule_12_replicas_differ_below_the_watermark():
    """Truncation to the own watermark left another batch at the same offset."""
    one = replica(1, (0, 1, 0, "x"), (2, 2, 1, "y"))
    assert rules_broken([one, replica(2, (0, 1, 0, "x"), (2, 2, 1, "z"))]) == {12}
    assert rules_broken([one, replica(2, (0, 1, 0, "x"))]) == {12}


def test_rule_12_lets_pass_what_differs_above_the_watermark():
    """A tail that not all replicas have yet."""
    one = replica(1, (0, 1, 0, "x"), (2, 2, 1, "y"), watermark=2)
    assert check([one, replica(2, (0, 1, 0, "x"), watermark=2)]) == []


def test_rule_12_epochs_within_a_log_do_not_fall():
    """A stale leader's batch behind a newer one."""
    assert rules_broken([replica(1, (0, 1, 3, "x"), (2, 2, 1, "y"))]) == {12}
