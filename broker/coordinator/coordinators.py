"""The coordinators of one broker: which there are, and which topic each keeps its records in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from broker.coordinator.group.service import GroupCoordinator


class CoordinatorType(IntEnum):
    """What a key in FindCoordinator is, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class KeyedCoordinator(Protocol):
    """What finds a coordinator and tells it what it leads. Which requests it serves is its own."""

    @property
    def topic_name(self) -> str:
        """The topic with its records; who leads a partition coordinates the keys in it."""

    def partition_of(self, key: str) -> int:
        """The partition of that topic that holds this key."""

    def on_elected(self, index: int) -> None:
        """This broker leads the partition now."""

    def on_resigned(self, index: int) -> None:
        """Another broker leads the partition, or it is deleted."""

    def forget_topics(self, topics: frozenset[str]) -> None:
        """These topics are deleted."""

    async def stop(self) -> None:
        """Unload everything."""


class Coordinators:
    """The table of coordinators: `by_type` for FindCoordinator, `by_topic` for leadership."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self.groups = groups
        self.by_type: Mapping[int, KeyedCoordinator] = {CoordinatorType.GROUP: groups}
        self.by_topic: Mapping[str, KeyedCoordinator] = {
            one.topic_name: one for one in self.by_type.values()
        }

    async def stop(self) -> None:
        """Unload everything; who waits learns that this is no longer its coordinator."""
        for one in self.by_type.values():
            await one.stop()
