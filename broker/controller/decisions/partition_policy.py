"""The configuration of partitions that decisions need: minimum in-sync set, unclean elections.

In: the image and the controller's own static values. Out: the values in force for one topic. Kafka:
ConfigurationControlManager.getTopicConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.config.views import BrokerConfig
from broker.metadata.image import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    ResourceType,
)

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class PartitionPolicy:
    """The controller's own values, which apply where neither the topic nor the cluster sets any."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False

    @classmethod
    def of(cls, config: BrokerConfig) -> PartitionPolicy:
        """The values of a controller's own configuration."""
        return cls(config[MIN_ISR], config[UNCLEAN])

    def min_isr(self, image: MetadataImage, topic: str) -> int:
        """The topic's effective `min.insync.replicas`."""
        text = self._text(image, topic, MIN_ISR)
        # A stored value that is not a number passed the checks: it must not stop every controller.
        return int(text) if text and text.isdecimal() else self.min_insync_replicas

    def unclean_allowed(self, image: MetadataImage, topic: str) -> bool:
        """Whether a replica outside the in-sync set may lead when none is left in it."""
        text = self._text(image, topic, UNCLEAN)
        return self.unclean_leader_election if text is None else text.lower() == "true"

    def _text(self, image: MetadataImage, topic: str, key: str) -> str | None:
        held = image.topic_config(topic).get(key)
        if held is None:
            held = image.configs.get((ResourceType.BROKER, ""), {}).get(key)
        return held


def default_directory(image: MetadataImage, broker_id: int) -> bytes:
    """The directory of a broker's new replica: known only if the broker has exactly one."""
    broker = image.brokers.get(broker_id)
    if broker is None or not image.metadata_version:
        return UNASSIGNED_DIRECTORY
    usable = [one for one in broker.log_dirs if one not in broker.cordoned_log_dirs]
    if len(usable) == 1:
        return usable[0]
    return UNASSIGNED_DIRECTORY if usable or not broker.log_dirs else LOST_DIRECTORY
