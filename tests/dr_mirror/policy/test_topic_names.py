"""What topics are called at the other site."""

from __future__ import annotations

import random

import pytest

from bus.client.model import TopicPartition
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import ClusterPair, MirrorTopic, plan_topics

NAMES = TopicNames("A", "B")


def test_with_prefixes_a_topic_has_the_alias_of_its_source():
    """As MirrorMaker 2's DefaultReplicationPolicy."""
    assert NAMES.at_target("data.vehicle") == "A.data.vehicle"
    assert NAMES.at_source("A.data.vehicle") == "data.vehicle"
    assert NAMES.partition_at_target(TopicPartition("x", 3)) == TopicPartition("A.x", 3)
    assert NAMES.keys_at_target({TopicPartition("x", 3): 5}) == {TopicPartition("A.x", 3): 5}


@pytest.mark.parametrize("name", ["data.vehicle", "A", "A.", "AB.data", "B.data"])
def test_what_the_mirror_did_not_name_is_none_of_its(name: str):
    """Not to be configured, and nothing that the source could have deleted."""
    assert NAMES.at_source(name) is None


@pytest.mark.parametrize("name", ["heartbeats", "A.checkpoints.internal", "mm2-configs.internal"])
def test_what_mirrors_keep_for_themselves_is_called_the_same_and_is_not_mirrored(name: str):
    """Also where somebody asks for all."""
    assert NAMES.at_target(name) == NAMES.at_source(name) == name
    assert not TopicSelection([".*"]).selects(name)


def test_any_name_comes_back_from_the_other_side(dice: random.Random):
    """Whatever the dots."""
    for _ in range(200):
        name = "".join(dice.choices("Aab.-_", k=dice.randrange(1, 9)))
        for names in (NAMES, SAME_NAMES):
            assert names.at_source(names.at_target(name)) == name


@pytest.mark.parametrize(
    ("name", "comes"),
    [("B.data", True), ("C.B.data", True), ("data.vehicle", False), ("data.B", False), ("B", False)],
)
def test_a_name_with_the_targets_alias_was_there_already(name: str, comes: bool):
    """By way of a third site, too: else a ring of sites would copy for ever."""
    assert NAMES.comes_from_target(name) is comes
    assert not SAME_NAMES.comes_from_target(name)
    found = plan_topics(
        {name: MirrorTopic(name, b"1" * 16, 1)}, {}, TopicSelection([".*"]),
        ClusterPair("a-id", "b-id", 1), {}, NAMES,
    )[name]  # fmt: skip
    assert found.state is (MirrorState.LOOP if comes else MirrorState.COPYING)
