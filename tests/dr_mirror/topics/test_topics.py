"""What happens to each topic."""

from __future__ import annotations

import pytest

from bus.client.model import TopicPartition
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.topics.generations import GENERATION_KEY, next_generation
from dr_mirror.topics.sites import SitesError, check_sites
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import (
    SOURCE_CLUSTER_KEY,
    SOURCE_TOPIC_KEY,
    ClusterPair,
    MirrorTopic,
    plan_topics,
    surplus_partitions,
    with_recreated,
)

A_AND_B = ClusterPair("A", "B", 100)
NAME = "data.vehicle"


def topic(partitions: int = 4, topic_id: bytes = b"1" * 16, **configs: str) -> MirrorTopic:
    keys = {name.replace("_", "."): value for name, value in configs.items()}
    return MirrorTopic(NAME, topic_id, partitions, keys)


def mirrored(partitions: int = 4, **configs: str) -> MirrorTopic:
    keys = {"mirror_source_cluster_id": "A", "mirror_generation": "100",
            "mirror_source_topic_id": (b"1" * 16).hex(), **configs}
    return topic(partitions, b"2" * 16, **keys)


def plan(source: MirrorTopic | None, target: MirrorTopic | None, known: dict[str, bytes] | None = None):
    found = plan_topics(
        {NAME: source} if source else {}, {NAME: target} if target else {},
        TopicSelection(), A_AND_B, known or {},
    )  # fmt: skip
    return found.get(NAME)


def test_a_missing_topic_is_made_with_the_partitions_and_what_decides_its_records():
    """Where its records lie on disk is the target's own."""
    made = plan(topic(3, cleanup_policy="compact", retention_ms="7", segment_bytes="9"), None)
    assert (made.state, made.create, made.copied) == (MirrorState.COPYING, True, 3)
    assert made.configure == {
        "cleanup.policy": "compact", "retention.ms": "7",
        SOURCE_CLUSTER_KEY: "A", GENERATION_KEY: "100", SOURCE_TOPIC_KEY: (b"1" * 16).hex(),
    }  # fmt: skip


def test_a_mirror_that_agrees_is_only_copied():
    """Nothing is changed at every comparison."""
    found = plan(topic(retention_ms="7"), mirrored(retention_ms="7", segment_bytes="1"))
    assert (found.state, found.create, found.add_to, found.configure, found.copied) == (
        MirrorState.COPYING, False, 0, {}, 4,
    )  # fmt: skip


def test_a_changed_configuration_follows_the_source():
    """Only keys that decide what the topic holds."""
    found = plan(topic(retention_ms="8", segment_bytes="5"), mirrored(retention_ms="7"))
    assert found.configure == {"retention.ms": "8"}


def test_an_older_generation_is_raised_and_a_newer_one_stops_this_instance():
    """The fence stands in the topic, so that a new leader knows it."""
    assert plan(topic(), mirrored(mirror_generation="99")).configure == {GENERATION_KEY: "100"}
    assert plan(topic(), mirrored(mirror_generation="101")).state is MirrorState.FENCED


def test_whose_copy_it_is_is_written_down_once_and_a_source_without_ids_is_copied():
    """A mirror of an earlier version has not written it, and clusters of before Kafka 2.8 have none.
    """
    id_of_it = (b"1" * 16).hex()
    assert plan(topic(), mirrored(mirror_source_topic_id="")).configure == {SOURCE_TOPIC_KEY: id_of_it}
    without = plan(topic(topic_id=bytes(16)), mirrored())
    assert (without.state, without.configure) == (MirrorState.COPYING, {})


def test_the_key_of_the_target_says_whose_copy_it_is_whatever_this_process_has_copied_before():
    """Another mirror, or copy-anew, has begun with the present topic meanwhile; and the other way
    round: what this process copies is no proof that the target holds no other topic."""
    before, now = b"0" * 16, b"1" * 16
    well = plan(topic(topic_id=now), mirrored(), {NAME: before})
    assert (well.state, well.source_id) == (MirrorState.COPYING, now)
    other = plan(topic(topic_id=now), mirrored(mirror_source_topic_id=before.hex()), {NAME: now})
    assert other.state is MirrorState.RECREATED_AT_SOURCE
    unsaid = plan(topic(topic_id=now), mirrored(mirror_source_topic_id=""), {NAME: before})
    assert unsaid.state is MirrorState.RECREATED_AT_SOURCE


def test_partitions_that_the_source_got_are_added():
    """And all are copied."""
    found = plan(topic(6), mirrored(4))
    assert (found.state, found.add_to, found.copied) == (MirrorState.COPYING, 6, 6)


def test_more_partitions_at_the_target_are_named_and_the_others_copied():
    """A protection of most is better than of none."""
    found = plan(topic(2), mirrored(4))
    assert (found.state, found.copied) == (MirrorState.MORE_PARTITIONS, 2)
    assert found.state.copies
    assert "4 at the target, 2 at the source" in found.detail


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ({2: 0, 3: 0}, MirrorState.MORE_PARTITIONS),
        ({2: 0, 3: 7}, MirrorState.RECREATED_AT_SOURCE),
        ({2: 0}, MirrorState.MORE_PARTITIONS),
        ({}, MirrorState.MORE_PARTITIONS),
    ],
)
def test_a_partition_that_was_copied_and_is_gone_at_the_source_says_that_its_topic_is_another_one(
    ends: dict[int, int], state: MirrorState
):
    """Made anew with fewer partitions while no mirror ran; empty ones somebody has added here."""
    source, target = topic(2), mirrored(4)
    plans = {NAME: plan(source, target)}
    assert surplus_partitions(plans, {NAME: target}) == [TopicPartition(NAME, 2), TopicPartition(NAME, 3)]
    found = with_recreated(plans, {TopicPartition(NAME, each): end for each, end in ends.items()})
    assert found[NAME].state is state
    if state is MirrorState.RECREATED_AT_SOURCE:
        assert found[NAME].detail.endswith(f"databus mirror copy-anew {NAME}")


def test_of_topics_that_have_a_counterpart_of_each_partition_none_is_asked():
    """No question to the target in the usual case."""
    target = mirrored(4)
    assert surplus_partitions({NAME: plan(topic(4), target)}, {NAME: target}) == []


@pytest.mark.parametrize(
    ("source", "target", "known", "state"),
    [
        (topic(), topic(), {}, MirrorState.NOT_A_MIRROR),
        (topic(), topic(mirror_source_cluster_id="C"), {}, MirrorState.OTHER_SOURCE),
        (topic(mirror_source_cluster_id="B"), None, {}, MirrorState.LOOP),
        (topic(mirror_source_cluster_id="B"), topic(), {}, MirrorState.LOOP),
        (None, mirrored(), {}, MirrorState.DELETED_AT_SOURCE),
        (topic(topic_id=b"3" * 16), mirrored(), {NAME: b"1" * 16}, MirrorState.RECREATED_AT_SOURCE),
        (topic(topic_id=b"3" * 16), mirrored(), {}, MirrorState.RECREATED_AT_SOURCE),
    ],
)
def test_what_cannot_be_copied_is_named_and_nothing_is_changed(source, target, known, state):
    """Never a silent skip, and never a change to a topic that is not the source's mirror."""
    found = plan(source, target, known)
    assert found.state is state
    assert not found.state.copies
    assert (found.create, found.add_to, dict(found.configure)) == (False, 0, {})


def test_a_topic_of_another_mirror_or_of_nobody_concerns_us_only_where_it_is_selected():
    """The target's own topics are none of the mirror's."""
    assert plan(None, topic()) is None
    assert plan(None, topic(mirror_source_cluster_id="C")) is None


def test_a_mirror_of_a_third_cluster_may_be_copied_further():
    """A chain is no loop."""
    assert plan(topic(mirror_source_cluster_id="Z"), mirrored()).state is MirrorState.COPYING


def test_a_starting_instance_is_newer_than_every_one_before():
    """Also where its clock is behind."""
    assert next_generation(50, []) == 50
    assert next_generation(50, [{GENERATION_KEY: "70"}, {}, {GENERATION_KEY: "x"}]) == 71


def test_every_state_has_words_in_both_languages():
    """And a remedy in both or in neither."""
    for state in MirrorState:
        text = state.text
        assert "" != text.meaning("zh") != text.meaning("en") != ""
        assert bool(text.remedy("zh")) == bool(text.remedy("en"))
        assert state.copies or state is MirrorState.STARTING or text.remedy("en")


@pytest.mark.parametrize(
    ("target_id", "source_site", "target_site", "words"),
    [("A", 1, 2, "one cluster"), ("B", 0, 0, "site.number=0"), ("B", None, None, "site.number=0"),
     ("B", 3, 3, "site.number=3"), ("B", None, 0, "Apache Kafka counts as 0")],
)  # fmt: skip
def test_equal_clusters_or_sites_are_refused_with_the_remedy(target_id, source_site, target_site, words):
    """In both languages."""
    with pytest.raises(SitesError) as caught:
        check_sites("A", target_id, source_site, target_site)
    assert words in caught.value.text("en")
    assert caught.value.text("zh") != caught.value.text("en")


@pytest.mark.parametrize(("source_site", "target_site"), [(0, 1), (None, 7), (2, None)])
def test_different_sites_may_be_mirrored(source_site, target_site):
    """Apache Kafka as 0."""
    check_sites("A", "B", source_site, target_site)


def test_a_topic_that_is_fenced_for_a_switch_is_copied_to_its_end():
    """Both sites are bound to each other then: nobody writes to either."""
    found = plan(topic(mirror_source_cluster_id="B"), mirrored())
    assert (found.state, found.configure) == (MirrorState.COPYING, {})
