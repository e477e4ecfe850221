"""What the mirror does with topics of a target that knows no mirrors."""

from __future__ import annotations

import pytest

from dr_mirror.policy.selection import TopicSelection
from dr_mirror.produce.plan.produced_topics import fenced_plans, plan_produced_topics
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import SOURCE_CLUSTER_KEY, ClusterPair, MirrorTopic, TopicPlan

CLUSTERS = ClusterPair("site-a", "site-b", 1)
OF_A = MirrorTopic(
    "data.face",
    b"a",
    3,
    {"retention.ms": "5", "message.timestamp.type": "LogAppendTime", "segment.ms": "9"},
)
WANTED = {"retention.ms": "5", "message.timestamp.type": "CreateTime"}


def plan(
    target: MirrorTopic | None, copied: bool = True, source: MirrorTopic = OF_A, back: bool = False
) -> TopicPlan:
    at_target = {} if target is None else {target.name: target}
    ids = {target.name: target.topic_id.hex()} if copied and target is not None else {}
    names = frozenset({source.name}) if back else frozenset()
    return plan_produced_topics(
        {source.name: source}, at_target, TopicSelection(), CLUSTERS, ids, names
    )[source.name]


def test_a_topic_that_the_target_lacks_is_made_with_the_times_of_the_source():
    """What decides which records it holds follows; a record keeps its time."""
    assert plan(None) == TopicPlan("data.face", MirrorState.COPYING, 3, True, 0, WANTED)


def test_a_topic_that_was_never_copied_is_not_changed():
    """It may be an operator's, made before the mirror, or somebody else's."""
    assert plan(MirrorTopic("data.face", b"b", 2), copied=False) == TopicPlan(
        "data.face", MirrorState.COPYING, 2
    )


def test_a_topic_that_was_copied_follows_the_source():
    """Partitions too."""
    found = plan(MirrorTopic("data.face", b"b", 2, {"retention.ms": "7"}))
    assert (found.state, found.add_to, dict(found.configure)) == (MirrorState.COPYING, 3, WANTED)
    assert plan(MirrorTopic("data.face", b"b", 3, WANTED)) == TopicPlan(
        "data.face", MirrorState.COPYING, 3
    )


def test_more_partitions_at_the_target_are_named():
    """Those of the source are copied."""
    found = plan(MirrorTopic("data.face", b"b", 5, WANTED))
    assert (found.state, found.copied) == (MirrorState.MORE_PARTITIONS, 3)


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_came_from_the_target_is_not_copied_back(is_ours: bool):
    """By the positions of a mirror in the other direction, or by the key of one that appends."""
    marked = MirrorTopic("data.face", b"a", 3, {SOURCE_CLUSTER_KEY: "site-b"})
    found = plan(None, source=marked) if is_ours else plan(None, back=True)
    assert found == TopicPlan("data.face", MirrorState.LOOP)


def test_an_older_instance_copies_nothing_once_a_newer_one_has_begun():
    """Nor does it change a topic."""
    plans = {"data.face": plan(None)}
    assert fenced_plans(plans, 9) == {
        "data.face": TopicPlan("data.face", MirrorState.FENCED, detail="generation 9")
    }


def test_a_topic_deleted_at_the_source_is_kept_and_named():
    """Only one that was copied, and is still the same."""
    target = MirrorTopic("data.face", b"b", 3)
    ids = {"data.face": b"b".hex()}
    found = plan_produced_topics({}, {"data.face": target}, TopicSelection(), CLUSTERS, ids)
    assert found == {"data.face": TopicPlan("data.face", MirrorState.DELETED_AT_SOURCE)}
    other = {"data.face": b"x".hex()}
    assert plan_produced_topics({}, {"data.face": target}, TopicSelection(), CLUSTERS, other) == {}
