"""Offsets that a transaction commits which was open when its partition was loaded (KIP-98)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from broker.coordinator.group.records import CommittedOffset, OffsetRecord
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.partition_writer import ProducerFields
from broker.log.errors import LogError
from broker.log.validation import AppendOrigin
from broker.replica.partition import Partition
from bus.errors import ErrorCode
from bus.records.batch import CONTROL, TRANSACTIONAL
from bus.records.control import ControlType, control_key, end_txn_marker
from tests.broker.coordinator.test_runtime import CoordinatorStage, play, until

PRODUCER, OTHER = 9, 10


def in_transaction(
    stage: CoordinatorStage, offset: int, producer_id: int = PRODUCER, *, epoch: int = 0,
    group: str = "group", partitions: Sequence[int] = (0,),
) -> None:  # fmt: skip
    """As Kafka's coordinator writes what a producer sends with its transaction."""
    records = [
        OffsetRecord(group, "topic", partition, CommittedOffset(offset, -1, "", 0))
        for partition in partitions
    ]
    fields = ProducerFields(producer_id, epoch, 0, is_transactional=True)
    errors: list[ErrorCode] = []
    stage.appender.write(0, records, lambda: None, errors.append, fields)
    assert errors in ([], [ErrorCode.NONE])


def end(
    stage: CoordinatorStage, producer_id: int = PRODUCER, *, commit: bool, epoch: int = 0
) -> None:
    marker = end_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=1,
        timestamp_ms=0,
    )  # fmt: skip
    stage.replicas.get("__consumer_offsets", 0).append_as_leader(
        marker, required_acks=-1, now_ms=0, origin=AppendOrigin.COORDINATOR
    )


async def elected_again(stage: CoordinatorStage) -> Partition:
    """The partition is loaded by another leadership."""
    epoch = stage.replicas.get("__consumer_offsets", 0).leader_epoch
    stage.metadata(leader=2, epoch=epoch + 1)
    partition = stage.metadata(leader=1, epoch=epoch + 2, isr=(1,))
    await until(lambda: stage.groups.check_fetch("group") is ErrorCode.NONE)
    return partition


async def begun(stage: CoordinatorStage) -> None:
    """5 is committed; 6 in a transaction that is open at the load."""
    stage.metadata(leader=1, epoch=0, isr=(1,))
    assert await stage.commit(5) is ErrorCode.NONE
    in_transaction(stage, 6)
    await elected_again(stage)
    assert stage.committed() == 5


def test_offsets_of_an_open_transaction_are_in_force_with_its_commit_marker() -> None:
    async def scene(stage: CoordinatorStage) -> None:
        await begun(stage)
        in_transaction(stage, 7)  # it goes on after the load
        end(stage, commit=True)
        await until(lambda: stage.committed() == 7)

    play(scene)


def test_offsets_of_an_open_transaction_go_with_its_abort_marker() -> None:
    """That of another producer, committed behind it, shows that the marker was read."""

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        assert await stage.commit(5) is ErrorCode.NONE
        in_transaction(stage, 6)
        in_transaction(stage, 8, OTHER, group="other")
        await elected_again(stage)
        end(stage, commit=False)
        end(stage, OTHER, commit=True)
        await until(lambda: ("topic", 0) in stage.groups.offsets_of("other"))
        assert stage.committed() == 5

    play(scene)


def test_a_group_that_only_a_transaction_has_committed_for_is_known_then() -> None:
    async def scene(stage: CoordinatorStage) -> None:
        await begun(stage)
        in_transaction(stage, 8, OTHER, group="new")
        await elected_again(stage)
        assert [one.group_id for one in stage.groups.groups()] == ["group"]
        end(stage, OTHER, commit=True)
        await until(lambda: len(stage.groups.groups()) == 2)
        assert stage.groups.offsets_of("new")["topic", 0].offset == 8
        assert stage.committed() == 5, "the first one is open still"

    play(scene)


def test_a_commit_behind_an_open_transactions_is_newer_whatever_becomes_of_that() -> None:
    """As it would be after a cleaning, in which the later record stays."""

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        in_transaction(stage, 6, partitions=(0, 1))
        await elected_again(stage)
        assert await stage.commit(5) is ErrorCode.NONE
        end(stage, commit=True)
        await until(lambda: ("topic", 1) in stage.groups.offsets_of("group"))
        assert stage.committed() == 5

    play(scene)


def test_a_fenced_producers_transaction_is_aborted_by_the_marker_of_a_newer_epoch() -> None:
    """Whose own transaction then counts. A marker of the epoch that was fenced is refused."""

    async def scene(stage: CoordinatorStage) -> None:
        await begun(stage)
        end(stage, commit=False, epoch=1)
        with pytest.raises(LogError) as refused:
            end(stage, commit=True, epoch=0)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        in_transaction(stage, 8, epoch=1)
        await elected_again(stage)
        end(stage, commit=True, epoch=1)
        await until(lambda: stage.committed() == 8)

    play(scene)


def test_a_marker_that_is_not_replicated_brings_nothing_into_force() -> None:
    async def scene(stage: CoordinatorStage) -> None:
        await begun(stage)
        epoch = stage.replicas.get("__consumer_offsets", 0).leader_epoch
        partition = stage.metadata(leader=1, epoch=epoch + 1)
        end(stage, commit=True)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.committed() == 5
        partition.on_follower_fetch(2, partition.log.end_offset)
        await until(lambda: stage.committed() == 6)

    play(scene)


def test_more_offsets_than_fit_into_a_piece_come_into_force_all_together_with_commits_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.coordinator.runtime.SETTLED_PER_PIECE", 3)

    async def scene(stage: CoordinatorStage) -> None:
        stage.metadata(leader=1, epoch=0, isr=(1,))
        in_transaction(stage, 6, partitions=range(20))
        await elected_again(stage)
        end(stage, commit=True)
        while len(stage.groups.offsets_of("group")) < 3:  # ends by the test's own time limit
            await asyncio.sleep(0)
        assert len(stage.groups.offsets_of("group")) < 20
        assert await stage.commit(7) is ErrorCode.NONE
        await until(lambda: len(stage.groups.offsets_of("group")) == 20)
        assert stage.committed() == 7

    play(scene)


def test_a_broker_that_does_not_lead_any_more_applies_nothing() -> None:
    async def scene(stage: CoordinatorStage) -> None:
        await begun(stage)
        partition = stage.replicas.get("__consumer_offsets", 0)
        stage.metadata(leader=2, epoch=partition.leader_epoch + 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.groups.groups() == []

    play(scene)


def test_what_is_kept_of_a_transaction_is_the_newest_of_each_key() -> None:
    """However often it has written them."""
    transactions = OpenTransactions()
    for number in range(1000):
        written: dict[bytes, bytes | None] = {b"%d" % (number % 3): b"%d" % number}
        transactions.on_batch(number, TRANSACTIONAL, PRODUCER, written)
    assert sum(map(len, transactions._pending.values())) == 3
    marker: dict[bytes, bytes | None] = {control_key(ControlType.COMMIT): b""}
    transactions.on_batch(1000, TRANSACTIONAL | CONTROL, PRODUCER, marker)
    assert transactions.take_due(10) == [(b"0", b"999"), (b"1", b"997"), (b"2", b"998")]
    assert not transactions
