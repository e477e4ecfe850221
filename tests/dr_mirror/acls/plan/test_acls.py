"""Which ACLs the target should have."""

from __future__ import annotations

import random

import pytest

from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from dr_mirror.acls.plan.acls import AclRules, plan_acls
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames

READ, WRITE, ALL = Operation.READ, Operation.WRITE, Operation.ALL


def acl(
    operation: int, name: str = "data.vehicle", *, resource: int = Resource.TOPIC,
    pattern: int = Pattern.LITERAL, permission: int = Permission.ALLOW,
) -> AclBinding:  # fmt: skip
    return AclBinding(resource, name, pattern, "User:app", "*", operation, permission)


def rules(*, others_write: bool = False, names: TopicNames = SAME_NAMES) -> AclRules:
    return AclRules({"data.vehicle", "data.face"}, lambda group: group != "own", names, others_write)


def test_who_may_read_at_the_source_may_read_at_the_target_and_nobody_writes_there():
    """A topic that only the mirror fills."""
    denied = acl(WRITE, permission=Permission.DENY)
    source = [acl(READ), acl(WRITE), acl(ALL, "data.face"), denied, acl(READ, "other")]
    found = plan_acls(source, [], rules())
    assert set(found.create) == {acl(READ), acl(READ, "data.face"), denied}
    assert found.replicated == 3


def test_at_our_brokers_producers_need_theirs_once_the_site_is_primary():
    """Until then the topic itself takes no records."""
    source = [acl(WRITE), acl(ALL, "data.face")]
    assert set(plan_acls(source, [], rules(others_write=True)).create) == set(source)


def test_what_is_there_is_not_made_again_and_what_is_more_is_named_and_kept():
    """A revoked one, or the operator's own."""
    found = plan_acls([acl(READ)], [acl(READ), acl(READ, "data.face"), acl(WRITE)], rules())
    assert (found.create, found.replicated) == ((), 1)
    assert found.only_at_target == (acl(READ, "data.face"),)


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (acl(READ, "data.", pattern=Pattern.PREFIXED), True),
        (acl(READ, "*"), True),
        (acl(READ, "other.", pattern=Pattern.PREFIXED), False),
        (acl(READ, "*", resource=Resource.GROUP), True),
    ],
)
def test_patterns_are_for_a_person_to_decide(one: AclBinding, named: bool):
    """They may cover more at the target."""
    found = plan_acls([one], [], rules())
    assert found.create == ()
    assert found.by_hand == ((one,) if named else ())
    assert plan_acls([one], [one], rules()).by_hand == ()


def test_groups_come_whose_offsets_are_copied():
    """Else the offsets would be of no use there."""
    source = [acl(READ, name, resource=Resource.GROUP) for name in ("readers", "own")]
    assert plan_acls(source, [], rules()).create == (source[0],)


def test_with_prefixes_they_are_about_the_topic_with_the_alias():
    """Names of groups are the same."""
    found = plan_acls([acl(READ)], [], rules(names=TopicNames("A", "B")))
    assert found.create == (acl(READ, "A.data.vehicle"),)


def test_a_plan_that_was_carried_out_leaves_nothing_to_do(dice: random.Random):
    """Of any ACLs, in any order; the target grants no pattern by it."""
    for _ in range(100):
        source, target = (
            {
                acl(
                    dice.randrange(2, 14), dice.choice(("data.vehicle", "data.face", "*", "data.")),
                    resource=dice.choice((2, 3)), pattern=dice.choice((3, 4)),
                    permission=dice.choice((2, 3)),
                )
                for _ in range(dice.randrange(8))
            }
            for _ in range(2)
        )  # fmt: skip
        given = rules(others_write=dice.random() < 0.5)
        first = plan_acls(source, target, given)
        after = target | set(first.create)
        assert plan_acls(source, after, given).create == ()
        assert all(each.pattern == Pattern.LITERAL and each.name != "*" for each in first.create)
        assert all(each.text for each in first.create)
