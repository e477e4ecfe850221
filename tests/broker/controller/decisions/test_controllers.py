"""Registration of controllers, and its end."""

from __future__ import annotations

from broker.controller.decisions.controllers import register_controller, unregister_controller
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, FeatureRange, MetadataImage, frozen
from broker.metadata.versions import CONTROLLER_UNREGISTRATION_LEVEL, METADATA_VERSION
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


def replayed(image: MetadataImage, records: tuple[object, ...]) -> MetadataImage:
    """The image after these records."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(1, 1).image


def test_a_controller_is_unregistered_from_its_level_on() -> None:
    """It may register again; one that is not there is named."""
    levels = (FeatureRange(METADATA_VERSION, 21, 33),)
    for level, error in (
        (CONTROLLER_UNREGISTRATION_LEVEL - 1, ErrorCode.UNSUPPORTED_VERSION),
        (CONTROLLER_UNREGISTRATION_LEVEL, ErrorCode.NONE),
    ):
        image = MetadataImage(features=frozen({METADATA_VERSION: level}))
        image = replayed(image, register_controller(image, 3, b"1" * 16, PLACE, levels).records)
        decision = unregister_controller(image, 3)
        assert decision.reply.error is error
        image = replayed(image, decision.records)
        assert (3 in image.controllers) is bool(error)
    again = unregister_controller(image, 3)
    assert (again.records, again.reply.error) == ((), ErrorCode.CONTROLLER_ID_NOT_REGISTERED)
    assert register_controller(image, 3, b"1" * 16, PLACE, levels).records
