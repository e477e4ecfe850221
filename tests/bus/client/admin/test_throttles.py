"""The throttles of a move: on givers and takers, for the moving replicas only."""

from __future__ import annotations

from bus.client.admin.config_resources import BROKER, TOPIC, AlterConfigOp
from bus.client.admin.throttles import (
    remove_throttles,
    throttle_between_brokers,
    throttle_within_brokers,
)

BEFORE = {("a", 0): [1, 2], ("a", 1): [2, 3]}
AFTER = {("a", 0): [1, 4], ("a", 1): [3, 2]}


def test_only_what_is_copied_is_braked():
    """a-1 changes its order only: nothing of it is copied, and broker 3 gives nothing."""
    found = throttle_between_brokers(BEFORE, AFTER, 1000)
    assert sorted(found) == [(TOPIC, "a"), *[(BROKER, str(b)) for b in (1, 2, 4)]]
    assert found[TOPIC, "a"] == [
        ("leader.replication.throttled.replicas", AlterConfigOp.SET, "0:1,0:2"),
        ("follower.replication.throttled.replicas", AlterConfigOp.SET, "0:4"),
    ]
    assert {value for _, _, value in found[BROKER, "1"]} == {"1000"}


def test_what_was_set_is_taken_off_again():
    set_keys = {
        (resource, key)
        for made in (throttle_between_brokers(BEFORE, AFTER, 1000), throttle_within_brokers([1, 2, 4], 1000))
        for resource, changes in made.items()
        for key, _, _ in changes
    }
    unset = {
        (resource, key)
        for resource, changes in remove_throttles(["a"], [1, 2, 4]).items()
        for key, change, _ in changes
        if change is AlterConfigOp.DELETE
    }
    assert unset == set_keys
