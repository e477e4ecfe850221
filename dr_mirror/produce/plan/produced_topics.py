"""What has to happen to each topic at an ordinary target. Pure.

In: the topics of both clusters, and which of the target's were copied from this source. Out: one
`TopicPlan` per name. Never: a deletion, and never a change to a topic that was not copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import (
    ClusterPair,
    MirrorTopic,
    TopicPlan,
    loop_by_name,
    wanted_configs,
)

TIMESTAMP_TYPE = "message.timestamp.type"
CREATE_TIME = "CreateTime"
"""Whatever the source's is: a record keeps the time that it has at the source."""


def plan_produced_topics(
    source: Mapping[str, MirrorTopic],
    target: Mapping[str, MirrorTopic],
    selection: TopicSelection,
    clusters: ClusterPair,
    copied: Mapping[str, str],
    copied_back: frozenset[str] = frozenset(),
    names: TopicNames = SAME_NAMES,
) -> dict[str, TopicPlan]:
    """A plan for every selected topic and every one that was copied.

    All are named as at the source. `copied`: the target's topic ids of those that positions are
    known of. `copied_back`: topics of the source that another mirror copies there from this target.
    """
    plans = {
        name: loop_by_name(name)
        if names.comes_from_target(name)
        else _plan(topic, target.get(name), clusters, copied.get(name, ""), name in copied_back)
        for name, topic in source.items()
        if selection.selects(name)
    }
    for name, topic in target.items():
        if copied.get(name) == topic.topic_id.hex() and name not in source:
            plans[name] = TopicPlan(name, MirrorState.DELETED_AT_SOURCE)
    return plans


def fenced_plans(plans: Mapping[str, TopicPlan], newest: int) -> dict[str, TopicPlan]:
    """The same topics once a newer instance, of this generation, has begun: none is copied."""
    detail = f"generation {newest}"
    return {name: TopicPlan(name, MirrorState.FENCED, detail=detail) for name in plans}


def _plan(
    source: MirrorTopic,
    target: MirrorTopic | None,
    clusters: ClusterPair,
    copied_id: str,
    is_copied_back: bool,
) -> TopicPlan:
    name, partitions = source.name, source.partitions
    if is_copied_back or source.configs.get(SOURCE_CLUSTER_KEY) == clusters.target_cluster_id:
        return TopicPlan(name, MirrorState.LOOP)
    wanted = {**wanted_configs(source), TIMESTAMP_TYPE: CREATE_TIME}
    if target is None:
        return TopicPlan(name, MirrorState.COPYING, partitions, True, 0, wanted)
    if target.partitions > partitions:
        detail = f"{target.partitions} at the target, {partitions} at the source"
        state = MirrorState.MORE_PARTITIONS
    else:
        state, detail = MirrorState.COPYING, ""
    if copied_id != target.topic_id.hex():  # its partitions are copied once they prove empty
        return TopicPlan(name, state, min(partitions, target.partitions), detail=detail)
    configure = {key: value for key, value in wanted.items() if target.configs.get(key) != value}
    add_to = partitions if target.partitions < partitions else 0
    return TopicPlan(name, state, partitions, False, add_to, configure, detail)
