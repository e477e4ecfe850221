"""Client quotas and ACLs: stored as records, found by filters."""

from __future__ import annotations

from itertools import count

from broker.controller.decisions.acls import (
    AclFilter,
    Pattern,
    create_acls,
    delete_acls,
    find_acls,
)
from broker.controller.decisions.quotas import (
    Filter,
    Match,
    QuotaChange,
    alter_quotas,
    find_quotas,
)
from broker.metadata.image import AclImage, QuotaEntity
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import ControlWorld

USER: QuotaEntity = (("user", "ann"),)
BOTH: QuotaEntity = (("user", "ann"), ("client-id", None))


def set_quota(world: ControlWorld, entity: QuotaEntity, key: str, value: float | None) -> ErrorCode:
    change = QuotaChange(entity, ((key, value),))
    return world.decide(alter_quotas(world.image, [change]))[0].error


def test_quotas_are_set_found_and_taken_back() -> None:
    """Filters match by exact name, default or any; `strict` excludes entities with further
    parts."""
    world = ControlWorld()
    assert set_quota(world, USER, "producer_byte_rate", 1000) is ErrorCode.NONE
    assert set_quota(world, BOTH, "request_percentage", 12.5) is ErrorCode.NONE
    exact = Filter("user", Match.EXACT, "ann")
    default = Filter("client-id", Match.DEFAULT)
    assert len(list(find_quotas(world.image, [exact], strict=False))) == 2
    assert [dict(values) for _, values in find_quotas(world.image, [exact], strict=True)] == [
        {"producer_byte_rate": 1000}
    ]
    assert len(list(find_quotas(world.image, [exact, default], strict=True))) == 1
    set_quota(world, USER, "producer_byte_rate", None)
    assert len(list(find_quotas(world.image, [exact], strict=True))) == 0


def test_quotas_that_mean_nothing_are_refused() -> None:
    """Covers unknown kinds, keys of the wrong kind and invalid values."""
    world = ControlWorld()
    refused: list[tuple[QuotaEntity, str, float]] = [
        ((), "producer_byte_rate", 1),
        ((("group", "g"),), "producer_byte_rate", 1),
        ((("ip", "nowhere?"),), "connection_creation_rate", 1),
        ((("ip", "10.0.0.1"),), "producer_byte_rate", 1),
        (USER, "connection_creation_rate", 1),
        (USER, "producer_byte_rate", 0),
        (USER, "producer_byte_rate", 1.5),
    ]
    for entity, key, value in refused:
        assert set_quota(world, entity, key, value) is ErrorCode.INVALID_REQUEST
    assert world.image.client_quotas == {}


READ = AclImage(2, "t", Pattern.LITERAL, "User:ann", "*", 3, 3)
PREFIX = AclImage(2, "ab", Pattern.PREFIXED, "User:ann", "*", 3, 3)
EVERYTHING = AclImage(2, "*", Pattern.LITERAL, "User:bob", "*", 4, 2)


def test_rules_are_made_once_found_and_removed() -> None:
    """MATCH finds every rule that would apply to a name."""
    world = ControlWorld()
    ids = (number.to_bytes(16, "big") for number in count(1))
    made = world.decide(
        create_acls(world.image, [READ, READ, PREFIX, EVERYTHING], ids)
    )
    assert [result.error for result in made] == [ErrorCode.NONE] * 4
    assert len(world.image.acls) == 3
    named = AclFilter(resource_type=2, resource_name="abc", pattern_type=Pattern.MATCH)
    assert [acl for _, acl in find_acls(world.image, named)] == [PREFIX, EVERYTHING]
    exact = AclFilter(resource_type=2, resource_name="t", pattern_type=Pattern.LITERAL)
    found = world.decide(delete_acls(world.image, [exact, exact]))
    assert found == ((READ,), (READ,))
    assert len(world.image.acls) == 2


def test_rules_that_mean_nothing_are_refused() -> None:
    """Each rule gets its own error."""
    world = ControlWorld()
    ids = (number.to_bytes(16, "big") for number in count(1))
    bad = [
        AclImage(2, "t", Pattern.MATCH, "User:ann", "*", 3, 3),
        AclImage(99, "t", Pattern.LITERAL, "User:ann", "*", 3, 3),
        AclImage(2, "", Pattern.LITERAL, "User:ann", "*", 3, 3),
        AclImage(2, "t", Pattern.LITERAL, "ann", "*", 3, 3),
        AclImage(2, "t", Pattern.LITERAL, "User:ann", "*", 1, 3),
    ]
    made = world.decide(create_acls(world.image, [*bad, READ], ids))
    assert [result.error for result in made] == [ErrorCode.INVALID_REQUEST] * 5 + [ErrorCode.NONE]
    assert list(world.image.acls.values()) == [READ]
