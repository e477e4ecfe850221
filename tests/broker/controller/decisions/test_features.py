"""Feature levels: up, down, together."""

from __future__ import annotations

from dataclasses import replace

from broker.controller.decisions.controllers import register_controller
from broker.controller.decisions.features import FeatureUpdate, UpgradeType, update_features
from broker.metadata.image import Endpoint, FeatureRange, ResourceType, frozen
from broker.metadata.versions import (
    ELR_VERSION,
    KRAFT_VERSION,
    MAX_LEVEL,
    METADATA_VERSION,
    MIN_LEVEL,
)
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import ControlWorld

SAFE, UNSAFE = UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def update(world: ControlWorld, *updates: FeatureUpdate, dry: bool = False) -> list[ErrorCode]:
    reply = world.decide(update_features(world.image, world.rules, updates, dry))
    return [result.error for result in reply]


def test_an_old_directory_is_upgraded_by_hand() -> None:
    """The level of its records is raised before that of features needing them, or both in one
    request."""
    world = ControlWorld(MIN_LEVEL)
    world.start(1)
    elr = FeatureUpdate(ELR_VERSION, 1)
    assert update(world, elr) == [ErrorCode.INVALID_UPDATE_VERSION]
    up = FeatureUpdate(METADATA_VERSION, MAX_LEVEL)
    assert update(world, up, elr, dry=True) == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.image.metadata_version == MIN_LEVEL
    assert update(world, up, elr) == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.image.metadata_version == MAX_LEVEL
    assert world.image.elr_enabled
    assert world.image.configs[ResourceType.BROKER, ""] == {"min.insync.replicas": "2"}


def test_a_level_goes_down_only_where_nothing_is_lost() -> None:
    """The request must also allow the downgrade."""
    world = ControlWorld()
    world.start(1)
    assert update(world, FeatureUpdate(METADATA_VERSION, 29)) == [
        ErrorCode.INVALID_UPDATE_VERSION
    ]
    for way in (SAFE, UNSAFE):
        down = FeatureUpdate(METADATA_VERSION, 29, way)
        assert update(world, down) == [ErrorCode.INVALID_UPDATE_VERSION]
    older = ControlWorld(29)
    assert update(older, FeatureUpdate(METADATA_VERSION, 26, SAFE)) == [ErrorCode.NONE]


def test_what_a_node_does_not_know_is_refused_for_all() -> None:
    """The request gets one error and changes nothing."""
    world = ControlWorld(29)
    world.start(1)
    good = FeatureUpdate(METADATA_VERSION, MAX_LEVEL)
    for bad in (FeatureUpdate("transaction.version", 2), FeatureUpdate(KRAFT_VERSION, 0)):
        assert update(world, good, bad) == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    newer = FeatureUpdate(METADATA_VERSION, MAX_LEVEL + 1)
    assert update(world, newer) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert world.image.metadata_version == 29


def test_switched_off_eligible_leaders_are_void() -> None:
    """Partitions drop them."""
    world = ControlWorld()
    world.start(1, 2)
    world.create_at("t", (1, 2))
    world.fence(2)
    assert world.partition("t").elr == (2,)
    assert update(world, FeatureUpdate(ELR_VERSION, 0, SAFE)) == [ErrorCode.NONE]
    assert world.partition("t").elr == ()


def test_a_level_waits_until_every_node_can_work_with_it() -> None:
    """A rolling upgrade from 4.3: brokers and controllers are replaced one by one."""
    world, raised = ControlWorld(30), FeatureUpdate(METADATA_VERSION, MAX_LEVEL)
    place = (Endpoint("CONTROLLER", "127.0.0.1", 19093),)

    def controller(incarnation: bytes, highest: int) -> None:
        features = (FeatureRange(METADATA_VERSION, MIN_LEVEL, highest),)
        world.decide(register_controller(world.image, 9, incarnation * 16, place, features))

    def refusal(local: int) -> str | None:
        decision = update_features(world.image, world.rules, [raised], True, 1, local)
        return decision.reply[0].message

    world.start(1)
    controller(b"1", 30)
    assert "Controller 9 only supports versions 21-30" in (refusal(local=8) or "")
    assert refusal(local=9) is None  # the controller that decides knows itself what it can do
    controller(b"2", MAX_LEVEL)
    assert refusal(local=8) is None
    old = (FeatureRange(METADATA_VERSION, MIN_LEVEL, 30),)
    brokers = {1: replace(world.image.brokers[1], features=old)}
    world.image = replace(world.image, brokers=frozen(brokers))
    assert "Broker 1 only supports versions 21-30" in (refusal(local=8) or "")
