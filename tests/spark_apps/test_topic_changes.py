"""What a driver does when it cannot be said which topics there are: batches go on, and soon."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from bus.client.kafka.cluster import ClusterUnavailable
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity
from spark_apps.source.topic_changes import CONFIRM_S, SILENT_S, TopicChanges, TopicsReplaced

TOPIC = "data.vehicle"


def cluster(topic_id: str) -> ClusterIdentity:
    return ClusterIdentity(cluster_id="c", topic_ids={TOPIC: topic_id}, partitions=((TOPIC, 0),))


class Looks:
    """A follower whose brokers answer, or do not."""

    def __init__(self) -> None:
        self.identity = cluster("first")
        self.answers = True
        self.waits: list[float] = []

    def refresh(self, timeout_s: float) -> None:
        self.waits.append(timeout_s)
        if not self.answers:
            raise ClusterUnavailable("no answer")


def test_batches_wait_once_for_brokers_that_do_not_answer_and_then_hardly() -> None:
    """What broke: each look met the broker that had just died for two seconds, with all alarms
    behind it."""
    looks = Looks()
    changes = TopicChanges(cluster("first"), cast(TopicFollower, looks), threading.Event())
    changes.confirm([TOPIC])
    looks.answers = False
    for _ in range(3):
        changes.confirm([TOPIC])
    looks.answers = True
    for _ in range(2):
        changes.confirm([TOPIC])
    assert looks.waits == [CONFIRM_S, CONFIRM_S, SILENT_S, SILENT_S, SILENT_S, CONFIRM_S]


def test_what_is_known_counts_though_the_newest_look_has_no_answer() -> None:
    """The follower's own looks have found another topic."""
    looks = Looks()
    changes = TopicChanges(cluster("first"), cast(TopicFollower, looks), threading.Event())
    looks.answers, looks.identity = False, cluster("second")
    with pytest.raises(TopicsReplaced):
        changes.confirm([TOPIC])
