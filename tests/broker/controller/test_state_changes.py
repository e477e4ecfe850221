"""The state-change log of an active controller, and the count of unclean elections."""

from __future__ import annotations

import logging

import pytest

from broker.controller import state_changes
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID = bytes(range(16))
RECOVERING = 1


def changed(image: MetadataImage, *records: object) -> Changes:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + len(records), 1)


def made() -> Changes:
    """Topic `t`, one partition on brokers 1 and 2."""
    return changed(
        MetadataImage(),
        TopicRecord(name="t", topic_id=ID),
        PartitionRecord(
            topic_id=ID, partition_id=0, replicas=[1, 2], isr=[1], leader=1, leader_epoch=0
        ),
    )


def test_every_change_of_a_partition_is_a_line_with_its_states(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has controller, epoch, partition, old and new state, replicas and leader (C-OBS-01)."""
    caplog.set_level(logging.INFO, "broker.controller.state_change")
    new = made()
    gone = changed(new.image, PartitionChangeRecord(topic_id=ID, partition_id=0, leader=-1))
    removed = changed(gone.image, RemoveTopicRecord(topic_id=ID))
    for changes in (new, gone, removed):
        state_changes.log_state_changes(changes, 7, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "controller 7 epoch 3: t-0 NON_EXISTENT → ONLINE leader 1 epoch 0 isr [1] replicas [1, 2]",
        "controller 7 epoch 3: t-0 ONLINE → OFFLINE leader -1 epoch 1 isr [1] replicas [1, 2]",
        "controller 7 epoch 3: t-0 OFFLINE → NON_EXISTENT",
    ]


def test_an_unclean_election_is_counted_once_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """It is not counted again while the leader recovers, nor afterwards."""
    new = made()
    unclean = changed(
        new.image,
        PartitionChangeRecord(
            topic_id=ID, partition_id=0, leader=2, isr=[2], leader_recovery_state=RECOVERING
        ),
    )
    grown = changed(unclean.image, PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[2, 1]))
    recovered = changed(
        grown.image, PartitionChangeRecord(topic_id=ID, partition_id=0, leader_recovery_state=0)
    )
    steps = (new, unclean, grown, recovered)
    assert [state_changes.log_unclean_elections(one) for one in steps] == [0, 1, 0, 0]
    assert "unclean election: broker 2 leads t-0" in caplog.text
