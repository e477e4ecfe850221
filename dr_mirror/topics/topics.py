"""What has to happen to each topic: create, extend, configure, copy, or a named state. Pure.

In: the topics of both clusters. Out: one `TopicPlan` per name that concerns the mirror.
Never: a deletion at the target, and never a change to a topic that is not the source's mirror.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bus.client.model import TopicDescription, TopicPartition
from bus.contracts.mirror import SOURCE_CLUSTER_KEY, SOURCE_TOPIC_KEY
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.topics.generations import GENERATION_KEY, generation_of
from dr_mirror.topics.states import MirrorState

MIRRORED_CONFIGS = (
    "cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms",
    "max.message.bytes", "message.timestamp.type", "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)  # fmt: skip
"""What decides which records a topic holds. Where and how they lie on disk is each site's own."""


@dataclass(frozen=True, slots=True)
class MirrorTopic:
    """A topic as one of the clusters shows it. `configs` are effective values."""

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether its batches may be rewritten."""
        return "compact" in self.configs.get("cleanup.policy", "")


def mirror_topic(topic: TopicDescription, name: str = "") -> MirrorTopic:
    """As it was asked for, with its configurations; `name` where it is called otherwise here."""
    return MirrorTopic(name or topic.name, topic.topic_id, len(topic.partitions), topic.configs)


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """Who copies from whom, as which instance."""

    source_cluster_id: str
    target_cluster_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to do with one topic.

    `create`: the target lacks it. `add_to`: raise its partitions to this number; 0: do not.
    `configure`: keys to set at the target. `copied`: partitions 0 … copied-1 are copied once the
    changes are made. `source_id`: of the source's topic that the plan is about; what is made anew
    before the plan is carried out is another one. Empty where that is not looked at.
    """

    name: str
    state: MirrorState
    copied: int = 0
    create: bool = False
    add_to: int = 0
    configure: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
    source_id: bytes = b""


def plan_topics(
    source: Mapping[str, MirrorTopic],
    target: Mapping[str, MirrorTopic],
    selection: TopicSelection,
    clusters: ClusterPair,
    known_ids: Mapping[str, bytes],
    names: TopicNames = SAME_NAMES,
) -> dict[str, TopicPlan]:
    """A plan for every selected topic and every mirror of the source that the target holds.

    All are named as at the source. What was copied so far the target's topics say; `known_ids`,
    the source's ids of the topics that this process copies, count where a topic does not say it
    yet: another mirror, or a command, may have begun with another topic since then.
    """
    plans = {
        name: loop_by_name(name)
        if names.comes_from_target(name)
        else replace(
            _plan(topic, target.get(name), clusters, known_ids.get(name, b"")),
            source_id=topic.topic_id,
        )
        for name, topic in source.items()
        if selection.selects(name)
    }
    for name, topic in target.items():
        is_ours = topic.configs.get(SOURCE_CLUSTER_KEY) == clusters.source_cluster_id
        if is_ours and name not in source:
            plans[name] = TopicPlan(name, MirrorState.DELETED_AT_SOURCE)
    return plans


def loop_by_name(topic: str) -> TopicPlan:
    """Of a topic whose name says that it was at the target."""
    return TopicPlan(topic, MirrorState.LOOP, detail="its name has the alias of the target")


def _plan(
    source: MirrorTopic, target: MirrorTopic | None, clusters: ClusterPair, known_id: bytes
) -> TopicPlan:
    name = source.name
    is_mirror = target is not None and (
        target.configs.get(SOURCE_CLUSTER_KEY) == clusters.source_cluster_id
    )
    if source.configs.get(SOURCE_CLUSTER_KEY) == clusters.target_cluster_id and not is_mirror:
        return TopicPlan(name, MirrorState.LOOP)  # one that is both is drained before a switch
    if target is None:
        configs = {
            **wanted_configs(source),
            **_source_topic(source),
            SOURCE_CLUSTER_KEY: clusters.source_cluster_id,
            GENERATION_KEY: str(clusters.generation),
        }
        return TopicPlan(name, MirrorState.COPYING, source.partitions, True, 0, configs)
    origin = target.configs.get(SOURCE_CLUSTER_KEY, "")
    if not origin:
        return TopicPlan(name, MirrorState.NOT_A_MIRROR)
    if origin != clusters.source_cluster_id:
        return TopicPlan(name, MirrorState.OTHER_SOURCE, detail=f"{SOURCE_CLUSTER_KEY}={origin}")
    copied_id = target.configs.get(SOURCE_TOPIC_KEY, "") or known_id.hex()
    if copied_id and any(source.topic_id) and copied_id != source.topic_id.hex():
        return TopicPlan(
            name, MirrorState.RECREATED_AT_SOURCE,
            detail=f"topic id {copied_id} was copied, the source has {source.topic_id.hex()}; "
            f"to copy the new one: databus mirror copy-anew {name}",
        )  # fmt: skip
    newest = generation_of(target.configs)
    if newest > clusters.generation:
        return TopicPlan(name, MirrorState.FENCED, detail=f"{GENERATION_KEY}={newest}")
    configure = {
        key: value
        for key, value in {**wanted_configs(source), **_source_topic(source)}.items()
        if target.configs.get(key) != value
    }
    if newest < clusters.generation:
        configure[GENERATION_KEY] = str(clusters.generation)
    if target.partitions > source.partitions:
        detail = f"{target.partitions} at the target, {source.partitions} at the source"
        return TopicPlan(
            name, MirrorState.MORE_PARTITIONS, source.partitions, False, 0, configure, detail
        )
    add_to = source.partitions if target.partitions < source.partitions else 0
    return TopicPlan(name, MirrorState.COPYING, source.partitions, False, add_to, configure)


def surplus_partitions(
    plans: Mapping[str, TopicPlan], target: Mapping[str, MirrorTopic]
) -> list[TopicPartition]:
    """Those of the target that the source has no counterparts of."""
    return [
        TopicPartition(name, index)
        for name, plan in plans.items()
        if plan.state is MirrorState.MORE_PARTITIONS
        for index in range(plan.copied, target[name].partitions)
    ]


def with_recreated(
    plans: Mapping[str, TopicPlan], surplus_ends: Mapping[TopicPartition, int]
) -> dict[str, TopicPlan]:
    """The plans, by the ends of the target's surplus partitions. Only a mirror writes there, and no
    topic loses a partition: one that ever held a record was copied of an earlier topic."""
    found = dict(plans)
    for (name, index), end in sorted(surplus_ends.items()):
        plan = found[name]
        if end > 0 and plan.state is MirrorState.MORE_PARTITIONS:
            found[name] = TopicPlan(
                name, MirrorState.RECREATED_AT_SOURCE,
                detail=f"partition {index} was copied, the source has {plan.copied} partitions; to "
                f"copy the new one: databus mirror copy-anew {name}",
            )  # fmt: skip
    return found


def _source_topic(source: MirrorTopic) -> dict[str, str]:
    """Whose copy it is, once a copy; a cluster of before Kafka 2.8 has no ids."""
    return {SOURCE_TOPIC_KEY: source.topic_id.hex()} if any(source.topic_id) else {}


def wanted_configs(source: MirrorTopic) -> dict[str, str]:
    """What the target's topic has to be configured with."""
    return {key: source.configs[key] for key in MIRRORED_CONFIGS if key in source.configs}
