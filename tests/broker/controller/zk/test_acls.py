"""ACLs in the znodes of Kafka 3.9's authorizer."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count

import pytest

from broker.controller.decisions.acls import AclFilter, create_acls, delete_acls
from broker.controller.zk import acls, znodes
from broker.metadata.image import AclImage
from tests.broker.controller.zk.simulated import SimulatedBroker, run_story, settled

READ, WRITE = 3, 4
RULE = AclImage(2, "vehicle", acls.LITERAL, "User:alice", "*", READ, 3)
PREFIX = AclImage(3, "read-", acls.PREFIXED, "User:bob", "10.0.0.1", WRITE, 2)


@pytest.mark.parametrize(
    ("rule", "path", "note"),
    [
        (RULE, "/kafka-acl/Topic/vehicle", b"TOPIC:vehicle"),
        (
            PREFIX, "/kafka-acl-extended/prefixed/Group/read-",
            b'{"version":1,"resourceType":"GROUP","name":"read-","patternType":"PREFIXED"}',
        ),
    ],
)  # fmt: skip
def test_a_resource_has_kafkas_path_and_note(rule: AclImage, path: str, note: bytes) -> None:
    """The resource is found by its notification, also by one of an old broker."""
    resource = acls.resource_of(rule)
    assert acls.path_of(resource) == path
    start, data = acls.notification_of(resource)
    folder = start.removesuffix("/acl_changes_")
    assert data == note
    assert acls.resource_of_notification(folder, data) == resource
    assert acls.resource_of_notification("/kafka-acl-changes", b"Topic:vehicle") == (2, "vehicle", 3)
    assert acls.resource_of_notification(folder, b"what") is None


def test_rules_are_written_as_kafka_writes_them_and_read_back() -> None:
    """All rules about one resource are in one node."""
    deny = replace(RULE, permission_type=2, operation=10)
    data = acls.encode_rules((RULE, deny))
    assert json.loads(data)["acls"] == [
        {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
        {
            "principal": "User:alice", "permissionType": "Deny", "operation": "DescribeConfigs",
            "host": "*",
        },
    ]  # fmt: skip
    assert acls.decode_rules(acls.resource_of(RULE), data) == (RULE, deny)
    with pytest.raises(znodes.ZnodeError, match="/kafka-acl/Topic/vehicle"):
        acls.decode_rules(acls.resource_of(RULE), b'{"acls":[{"principal":"User:x"}]}')


def test_rules_made_and_removed_by_clients_stand_in_the_nodes() -> None:
    """Every broker learns them from notifications; the node is removed with its last rule."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        ids = (number.to_bytes(16, "big") for number in count(1))
        other = replace(RULE, operation=WRITE)
        await one.write(lambda image: create_acls(image, [RULE, PREFIX], ids))
        await one.write(lambda image: create_acls(image, [other], ids))
        await settled()
        data, _ = await two.session.get("/kafka-acl/Topic/vehicle")
        assert len(json.loads(data)["acls"]) == 2
        await two.read_change_notifications()
        assert set(two.image.acls.values()) == {RULE, other, PREFIX}
        await one.write(lambda image: delete_acls(image, [AclFilter(resource_type=2)]))
        await settled()
        assert await two.session.exists("/kafka-acl/Topic/vehicle") is None
        await two.read_change_notifications()
        assert set(two.image.acls.values()) == {PREFIX}
        await one.write(lambda image: create_acls(image, [RULE], ids))
        await settled()
        assert await two.session.exists("/kafka-acl/Topic/vehicle") is not None

    run_story(story)


def test_rules_written_by_hand_are_taken_up_and_kept() -> None:
    """The controller's own write for the same resource fails on the version and adds to them."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        ids = (number.to_bytes(16, "big") for number in count(1))
        await two.session.create("/kafka-acl/Topic/vehicle", acls.encode_rules((RULE,)))
        other = replace(RULE, operation=WRITE)
        await one.write(lambda image: create_acls(image, [other], ids))
        await settled()
        await two.read_change_notifications()
        assert set(two.image.acls.values()) == {RULE, other}
        await two.session.set("/kafka-acl/Topic/vehicle", acls.encode_rules((other,)))
        await two.session.create(*acls.notification_of(acls.resource_of(RULE)), sequence=True)
        await settled()
        await one.read_change_notifications()
        await settled()
        assert set(one.controller.image.acls.values()) == {other}

    run_story(story)
