"""Marks the source's topics that are copied, so that their cluster knows that it has a second site.

In: topics of the source. Out: their key `mirror.target.cluster.id`. Blocking. Never: a mark before
the cluster was confirmed once, which would close the topic; a change of another mirror's mark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.errors import BusError
from dr_mirror.topics.topics import MirrorTopic

log = logging.getLogger(__name__)


def is_unmarked(topic: MirrorTopic) -> bool:
    """Whether the topic takes clients' records, and does not say that it is copied."""
    return not topic.configs.get(TARGET_CLUSTER_KEY) and not topic.configs.get(SOURCE_CLUSTER_KEY)


class TopicMarker:
    """Invariant: what the source refuses is said once."""

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin
        self._failure = ""

    def mark(self, topics: Iterable[MirrorTopic], target_cluster_id: str) -> None:
        """Those that are not marked yet. Copying goes on without."""
        names = [topic.name for topic in topics if is_unmarked(topic)]
        try:
            if names and self._admin.site_keys().members is not None:
                change: ConfigChanges = [(TARGET_CLUSTER_KEY, AlterConfigOp.SET, target_cluster_id)]
                self._admin.alter_topics(dict.fromkeys(names, change))
            self._failure = ""
        except BusError as error:
            if str(error) != self._failure:
                log.warning("the source does not take a mark that topics are copied; after a "
                            "restart of the whole site it will not ask: %s", error)  # fmt: skip
            self._failure = str(error)
