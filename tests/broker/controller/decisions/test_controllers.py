"""Registration of controllers."""

from __future__ import annotations

from broker.controller.decisions.controllers import register_controller
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, FeatureRange, MetadataImage, frozen
from broker.metadata.versions import METADATA_VERSION
from bus.errors import ErrorCode

PLACE = (Endpoint("CONTROLLER", "127.0.0.1", 19093),)
LEVELS = (FeatureRange(METADATA_VERSION, 21, 30),)


def test_it_is_recorded_once_per_life() -> None:
    """A repeated registration changes nothing; one of a new incarnation replaces it."""
    image = MetadataImage(features=frozen({METADATA_VERSION: 26}))
    first = register_controller(image, 3, b"1" * 16, PLACE, LEVELS)
    assert len(first.records) == 1
    delta = MetadataDelta(image)
    delta.replay(first.records[0])
    after = delta.apply(1, 1).image
    assert after.controllers[3].endpoints == PLACE
    assert register_controller(after, 3, b"1" * 16, PLACE, LEVELS).records == ()
    assert len(register_controller(after, 3, b"2" * 16, PLACE, LEVELS).records) == 1


def test_one_that_cannot_work_with_the_clusters_level_is_refused() -> None:
    """Otherwise it would lead a cluster whose records it cannot write."""
    image = MetadataImage(features=frozen({METADATA_VERSION: 26}))
    for levels in ((), (FeatureRange(METADATA_VERSION, 27, 30),)):
        decision = register_controller(image, 3, b"1" * 16, PLACE, levels)
        assert decision.records == ()
        assert decision.reply is ErrorCode.UNSUPPORTED_VERSION
