"""Which ACLs of the source the target should have: those of copied topics and groups. Pure.

In: the ACLs of both clusters. Out: an `AclPlan`. Never: an ACL taken away at the target, which may
be the operator's own; one that was revoked at the source is named. Never: one that covers more at
the target than at the source: patterns are named, for a person to decide.

MirrorMaker 2 does the same for topics (KIP-382, `sync.topic.acls.enabled`): nobody is allowed to
write to a topic that only a mirror fills, and who may do all may read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from dr_mirror.policy.topic_names import TopicNames

MAX_LISTED = 20
"""Of those that a person has to look at, in a status."""
ANY_NAME = "*"
COPIED = (Resource.TOPIC, Resource.GROUP)


@dataclass(frozen=True, slots=True)
class AclRules:
    """`topics` that are copied, named as at the source. `others_write`: the target is ours and
    read-only until it is the primary; then its producers need their ACLs."""

    topics: Collection[str]
    selects_group: Callable[[str], bool]
    names: TopicNames
    others_write: bool


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What to create, and what to tell."""

    create: tuple[AclBinding, ...]
    replicated: int
    by_hand: tuple[AclBinding, ...]
    only_at_target: tuple[AclBinding, ...]


def plan_acls(
    source: Collection[AclBinding], target: Collection[AclBinding], rules: AclRules
) -> AclPlan:
    """Compares both sides; all in a fixed order."""
    held = set(target)
    wanted = {found for each in source if (found := _at_target(each, rules)) is not None}
    patterns = [each for each in source if _is_pattern(each, rules) and each not in held]
    copies = {rules.names.at_target(topic) for topic in rules.topics}
    extra = [
        each for each in held - wanted
        if each.resource == Resource.TOPIC and each.name in copies and _lets_read(each)
    ]  # fmt: skip
    return AclPlan(
        tuple(sorted(wanted - held)), len(wanted), tuple(sorted(patterns)), tuple(sorted(extra))
    )


def _at_target(acl: AclBinding, rules: AclRules) -> AclBinding | None:
    """None: it does not concern what is copied, or is not to be there."""
    if acl.pattern != Pattern.LITERAL:
        return None
    if acl.resource == Resource.GROUP:
        is_one = acl.name != ANY_NAME and rules.selects_group(acl.name)
        return acl if is_one else None
    if acl.resource != Resource.TOPIC or acl.name not in rules.topics:
        return None
    named = acl._replace(name=rules.names.at_target(acl.name))
    if rules.others_write or acl.permission != Permission.ALLOW:
        return named
    if acl.operation == Operation.ALL:
        return named._replace(operation=Operation.READ)
    return None if acl.operation == Operation.WRITE else named


def _is_pattern(acl: AclBinding, rules: AclRules) -> bool:
    """Whether it covers something that is copied, and perhaps more."""
    if acl.pattern == Pattern.LITERAL and acl.name != ANY_NAME:
        return False
    if acl.resource == Resource.GROUP:
        return True
    prefix = "" if acl.name == ANY_NAME else acl.name
    return acl.resource == Resource.TOPIC and any(
        topic.startswith(prefix) for topic in rules.topics
    )


def _lets_read(acl: AclBinding) -> bool:
    reads = acl.operation in (Operation.READ, Operation.ALL)
    return reads and acl.permission == Permission.ALLOW and acl.pattern == Pattern.LITERAL
