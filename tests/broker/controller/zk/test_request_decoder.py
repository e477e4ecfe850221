"""Requests of a controller become records, or errors; epochs fence."""

from __future__ import annotations

from broker.controller.zk.request_decoder import (
    DecodedRequest,
    Fencing,
    records_from_leader_and_isr,
    records_from_update_metadata,
    step_down_records,
)
from broker.controller.zk.requests import Sender, leader_and_isr, update_metadata
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode
from tests.broker.controller.zk.test_plan import replayed, with_topic

AUTHOR = Sender(controller_id=1, controller_epoch=3, broker_epoch=50)


def world(partitions: int = 3) -> MetadataImage:
    return with_topic(partitions)[1]


def everything(image: MetadataImage) -> list[tuple[bytes, int]]:
    return [(topic.topic_id, one.index) for topic, one in image.partitions()]


def learn(image: MetadataImage, learned: DecodedRequest) -> MetadataImage:
    return replayed(image, *learned.records)


def test_a_new_broker_that_hears_everything_knows_what_the_controller_knows() -> None:
    """It has topics with ids, partitions with epochs and brokers with endpoints."""
    image = world()
    request = update_metadata(image, everything(image), AUTHOR, full=True)
    known = learn(MetadataImage(), records_from_update_metadata(MetadataImage(), request, {}))
    assert known.topics.keys() == image.topics.keys()
    for ours, theirs in zip(known.topics["t"].partitions, image.topics["t"].partitions,
                            strict=True):
        assert (ours.leader, ours.leader_epoch, ours.partition_epoch, ours.isr) == (
            theirs.leader, theirs.leader_epoch, theirs.partition_epoch, theirs.isr
        )  # fmt: skip
    assert {one.endpoints for one in known.brokers.values()} == {
        one.endpoints for one in image.brokers.values()
    }


def test_what_is_known_already_changes_nothing() -> None:
    """The same request a second time yields no record."""
    image = world()
    request = update_metadata(image, everything(image), AUTHOR)
    known = learn(MetadataImage(), records_from_update_metadata(MetadataImage(), request, {}))
    assert records_from_update_metadata(known, request, {}).records == []


def test_partitions_that_nobody_has_named_yet_stand_without_a_leader() -> None:
    """LeaderAndIsr names only a broker's own partitions; the numbers in between must exist, too."""
    image = world(4)
    topic_id = image.topics["t"].topic_id
    request = leader_and_isr(image, [(topic_id, 2)], AUTHOR)
    known = learn(MetadataImage(), records_from_leader_and_isr(MetadataImage(), request, 1, {}))
    assert [one.leader >= 0 for one in known.topics["t"].partitions] == [False, False, True]


def test_a_broker_refuses_replicas_that_are_not_its_own_and_older_leader_epochs() -> None:
    """Only that partition gets an error; the others are applied."""
    image = world(1)
    topic_id = image.topics["t"].topic_id
    request = leader_and_isr(image, [(topic_id, 0)], AUTHOR)
    learned = records_from_leader_and_isr(MetadataImage(), request, 9, {})
    assert learned.errors[topic_id, 0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert learned.records == []
    newer = MetadataDelta(image)
    held = image.topics["t"].partitions[0]
    request.topic_states[0].partition_states[0].leader_epoch = held.leader_epoch - 1
    learned = records_from_leader_and_isr(newer.base, request, 1, {})
    assert learned.errors[topic_id, 0] is ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_topic_being_deleted_is_forgotten_once_also_by_a_full_request() -> None:
    """Regression: the topic was removed twice, which no delta can do."""
    image = world(1)
    topic = image.topics["t"]
    request = update_metadata(MetadataImage(), [], AUTHOR, deleted=[topic], full=True)
    assert [one.name for one in records_from_update_metadata(image, request, {}).removed_topics] == ["t"]


def test_a_full_request_forgets_what_it_does_not_name_an_incremental_one_does_not() -> None:
    """KIP-866."""
    image = world(1)
    full = update_metadata(MetadataImage(), [], AUTHOR, full=True)
    some = update_metadata(MetadataImage(), [], AUTHOR)
    assert [one.name for one in records_from_update_metadata(image, full, {}).removed_topics] == ["t"]
    assert records_from_update_metadata(image, some, {}).removed_topics == []


def test_stepping_down_leaves_epochs_alone() -> None:
    """The broker stops leading but keeps the epoch: the next leader comes with the next epoch."""
    image = world(3)
    after = replayed(image, *step_down_records(image, image.topics.values(), 1))
    assert {one.leader for one in after.topics["t"].partitions} == {-1}
    assert [one.leader_epoch for one in after.topics["t"].partitions] == [
        one.leader_epoch for one in image.topics["t"].partitions
    ]


def test_epochs_fence() -> None:
    """Requests of an older controller, for an earlier broker epoch, and for no broker epoch are
    fenced."""
    fencing = Fencing(broker_epoch=50)
    assert fencing.check(update_metadata(MetadataImage(), [], AUTHOR)) is ErrorCode.NONE
    older = Sender(2, 2, 50)
    refused = fencing.check(update_metadata(MetadataImage(), [], older))
    assert refused is ErrorCode.STALE_CONTROLLER_EPOCH
    former = Sender(1, 3, 49)
    refused = fencing.check(update_metadata(MetadataImage(), [], former))
    assert refused is ErrorCode.STALE_BROKER_EPOCH
    fencing.broker_epoch, fencing.former_broker_epoch = -1, 50
    refused = fencing.check(update_metadata(MetadataImage(), [], AUTHOR))
    assert refused is ErrorCode.STALE_BROKER_EPOCH


def test_a_request_for_a_registration_that_the_broker_has_not_heard_of_yet_is_repeated() -> None:
    """Regression: it was refused as stale, which a controller does not repeat, so that a broker whose
    session had ended followed nobody until something else changed."""
    fencing = Fencing(broker_epoch=-1, former_broker_epoch=50)
    early = update_metadata(MetadataImage(), [], Sender(1, 3, 51))
    assert fencing.check(early) is ErrorCode.BROKER_NOT_AVAILABLE
    fencing.broker_epoch = 51
    assert fencing.check(early) is ErrorCode.NONE
