"""Registration: which brokers are accepted and which are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.controller.decisions import brokers
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, FeatureRange, MetadataImage
from broker.metadata.image_writer import image_records
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import CLUSTER, FEATURES, ControlWorld

GOOD = brokers.Registration(
    broker_id=1,
    incarnation_id=b"i" * 16,
    endpoints=(Endpoint("PLAINTEXT", "h", 9092),),
    log_dirs=(b"d" * 16,),
    cluster_id=CLUSTER,
    features=FEATURES,
)

REFUSED = [
    ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION),
    ({"endpoints": ()}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
    ({"features": ()}, ErrorCode.UNSUPPORTED_VERSION),
    ({"features": (FeatureRange("metadata.version", 1, 29),)}, ErrorCode.UNSUPPORTED_VERSION),
    ({"log_dirs": (bytes([2]) * 16,)}, ErrorCode.INVALID_REGISTRATION),
]


@pytest.mark.parametrize(("changes", "error"), REFUSED)
def test_a_registration_that_cannot_be_true_is_refused(
    changes: dict[str, object], error: ErrorCode
) -> None:
    """No record is written; the message names the reason."""
    world = ControlWorld()
    world.start(2)
    asked = replace(GOOD, **changes)  # type: ignore[arg-type]  # one field of many types
    decision = brokers.register(world.image, world.rules, asked, 9)
    assert decision.reply.error is error
    assert decision.reply.message
    assert decision.records == ()


def test_a_broker_is_registered_fenced_under_the_offset_of_its_record() -> None:
    """It is unfenced once it has read that far."""
    world = ControlWorld()
    epoch = len(world.records)
    assert world.register(1).epoch == epoch
    assert world.image.brokers[1].fenced
    assert not world.beat(1, offset=epoch - 1).is_caught_up
    assert world.image.brokers[1].fenced
    world.beat(1, offset=epoch)
    assert world.image.brokers[1].is_active


def test_the_same_incarnation_that_asks_again_keeps_its_epoch() -> None:
    """The first response was lost; the broker keeps its leaderships."""
    world = ControlWorld()
    world.decide(brokers.register(world.image, world.rules, GOOD, 9))
    world.unfence(1)
    again = world.decide(brokers.register(world.image, world.rules, GOOD, 50, True))
    assert again.epoch == 9
    assert world.image.brokers[1].is_active


def test_a_heartbeat_of_an_earlier_life_is_stale() -> None:
    """It changes nothing."""
    world = ControlWorld()
    world.start(1)
    epoch = world.image.brokers[1].epoch
    world.register(1)
    decision = brokers.fence(world.image, world.rules, 1, epoch)
    assert not decision.reply.changed


def test_a_forgotten_broker_is_counted_on_nowhere() -> None:
    """Other brokers lead its partitions; an unknown id is an error."""
    world = ControlWorld()
    world.start(1, 2, 3)
    world.create_at("t", (1, 2, 3))
    world.decide(brokers.unregister(world.image, world.rules, 1))
    assert world.partition("t").leader == 2
    assert world.partition("t").isr == (2, 3)
    assert 1 not in world.image.brokers
    reply = world.decide(brokers.unregister(world.image, world.rules, 1))
    assert reply.error is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_killed_before_it_stored_its_new_epoch_stays_eligible() -> None:
    """Regression, seed 91060: it sent the epoch before the last, was treated as if it had lost its
    log, and a broker that really had lost its log was elected instead. The registration in between
    was never unfenced."""
    world = ControlWorld()
    world.start(1, 2)
    world.create_at("t", (1, 2))
    first = world.image.brokers[1].epoch
    world.fence(1)
    world.register(1)
    world.register(1, previous_epoch=first)
    world.register(2, clean=False)
    assert world.partition("t").elr == (1,)
    world.unfence(1)
    assert world.partition("t").leader == 1


def test_an_epoch_before_the_last_unfenced_one_vouches_for_nothing() -> None:
    """A directory of that age lacks the records written since."""
    world = ControlWorld()
    world.start(1, 2)
    world.create_at("t", (1, 2))
    first = world.image.brokers[1].epoch
    world.register(1)
    world.unfence(1)
    world.fence(1)
    world.register(1, previous_epoch=first)
    assert world.partition("t").elr == ()
    assert world.partition("t").isr == (2,)


def test_after_a_snapshot_only_the_registered_epoch_vouches() -> None:
    """The snapshot does not contain whether a fenced registration was ever unfenced."""
    world = ControlWorld()
    world.start(1, 2)
    world.create_at("t", (1, 2))
    first = world.image.brokers[1].epoch
    world.fence(1)
    world.register(1)
    delta = MetadataDelta(MetadataImage(cluster_id=CLUSTER))
    for record in image_records(world.image):
        delta.replay(record)
    loaded = delta.apply(world.image.offset, 1).image
    assert loaded == world.image
    assert not loaded.brokers[1].is_continued_by(first)
    assert loaded.brokers[1].is_continued_by(world.image.brokers[1].epoch)
    assert world.image.brokers[1].is_continued_by(first)
