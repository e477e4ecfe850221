"""What a topic of the source is called at the target: the same, or with the source's alias. Pure.

In: the aliases. Out: names at either side. Never: a guess; a topic at the target whose name this
mirror does not make is none of its.

With prefixes names are those of MirrorMaker 2's DefaultReplicationPolicy (KIP-382): two sites may
copy to each other, and `data.vehicle` of site A is `A.data.vehicle` at site B.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from bus.client.model import TopicPartition

SEPARATOR = "."
Value = TypeVar("Value")
ByPartition = Mapping[TopicPartition, Value]

MIRRORS_OWN = (r"heartbeats", r".*[.-]internal")
"""Patterns of what mirrors keep for themselves, and call the same everywhere; never mirrored."""
_OWN = re.compile("|".join(MIRRORS_OWN))


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Both aliases empty: names are the same on both sides."""

    source_alias: str = ""
    target_alias: str = ""

    def at_target(self, topic: str) -> str:
        """Of a topic of the source."""
        if not self.source_alias or _OWN.fullmatch(topic):
            return topic
        return f"{self.source_alias}{SEPARATOR}{topic}"

    def at_source(self, topic: str) -> str | None:
        """Of a topic of the target; None where it is none that this mirror would make."""
        if not self.source_alias or _OWN.fullmatch(topic):
            return topic
        prefix, dot, name = topic.partition(SEPARATOR)
        return name if prefix == self.source_alias and dot and name else None

    def comes_from_target(self, topic: str) -> bool:
        """Whether the name of a topic of the source says that it was at the target already,
        perhaps by way of others."""
        return bool(self.target_alias) and self.target_alias in topic.split(SEPARATOR)[:-1]

    def partition_at_target(self, partition: TopicPartition) -> TopicPartition:
        """The same of a partition."""
        if not self.source_alias:
            return partition
        return TopicPartition(self.at_target(partition.topic), partition.partition)

    def keys_at_target(self, found: ByPartition[Value]) -> ByPartition[Value]:
        """A mapping with its partitions named as at the target."""
        if not self.source_alias:
            return found
        return {self.partition_at_target(one): value for one, value in found.items()}


SAME_NAMES = TopicNames()
