"""What all switches share: how they end early, their limits, the wait for every leader's answer.

In: a site, partitions. Out: answers, or SwitchRefused, SwitchUnfinished. Never: a wait without a
bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bus.client.model import TopicPartition
from bus.errors import BusError, ErrorCode
from bus.protocol.generated.mirror_append import PartitionMirrorAppendResult
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.site_client import SiteClient
from dr_mirror.topics.topics import MirrorTopic

POLL_S = 0.02
NAMED = 10
"""Partitions named in a text; the rest is counted."""

OnStep = Callable[[str, str], None]
Claims = dict[TopicPartition, PartitionMirrorAppendResult]
"""Each leader's answer to a claim of the mirror."""
AcceptsClaim = Callable[[TopicPartition, PartitionMirrorAppendResult], bool]


class SwitchRefused(Exception):
    """Nothing was changed; `obstacles` say why."""

    def __init__(self, obstacles: list[Obstacle]) -> None:
        super().__init__("; ".join(one.text for one in obstacles))
        self.obstacles = obstacles


class SwitchUnfinished(Exception):
    """The switch has begun and waits; the text says for what, and what to do."""


@dataclass(frozen=True, slots=True)
class SwitchLimits:
    """`max_lag_s`: a mirror that is further behind is not drained. `timeout_s`: of each wait."""

    max_lag_s: float
    timeout_s: float


def check_serves_mirror(site: SiteClient) -> None:
    """Raises SwitchRefused where the addresses of a site are not those of a mirror's listener."""
    if not site.serves_mirror():
        raise SwitchRefused([Obstacle(
            f"{site.name}: its addresses are not those of the listener that its brokers name in "
            "mirror.listener.name; a switch needs that listener"
        )])  # fmt: skip


def partitions_of(topics: Mapping[str, MirrorTopic]) -> list[TopicPartition]:
    """All of these topics."""
    return [
        TopicPartition(name, index)
        for name, topic in topics.items()
        for index in range(topic.partitions)
    ]


def claim_all(
    site: SiteClient,
    partitions: list[TopicPartition],
    source_cluster_id: str,
    generation: int,
    *,
    accepts: AcceptsClaim,
    unfinished: Callable[[str], SwitchUnfinished],
    limits: SwitchLimits,
    on_step: OnStep,
) -> Claims:
    """The first answer of each partition's leader that is no error and that `accepts` takes. Raises
    `unfinished` of the partitions without one when the time is over."""
    done: Claims = {}
    refused: dict[TopicPartition, str] = {}
    deadline = time.monotonic() + limits.timeout_s
    while True:
        waiting = [each for each in partitions if each not in done]
        for partition, one in site.leaders.claim(waiting, source_cluster_id, generation).items():
            if one.error_code:
                refused[partition] = one.error_message or ErrorCode.of(one.error_code).name
            elif accepts(partition, one):
                done[partition] = one
        if len(done) == len(partitions):
            return done
        if time.monotonic() > deadline:
            raise unfinished(named(
                [f"{p.topic}-{p.partition}: {refused.get(p, 'no leader')}"
                 for p in waiting if p not in done]
            ))  # fmt: skip
        time.sleep(POLL_S)
        refresh(site, on_step)


def is_replicated(_: TopicPartition, claim: PartitionMirrorAppendResult) -> bool:
    """Whether all that the leader's log holds is at its in-sync replicas."""
    return claim.high_watermark == claim.log_end_offset


def refresh(site: SiteClient, on_step: OnStep) -> None:
    """Ask for the leaders again; a site that does not answer is waited for."""
    try:
        site.refresh()
    except BusError as error:
        on_step("waiting", str(error))


def named(found: list[str]) -> str:
    """Some of them, and how many more."""
    more = len(found) - NAMED
    return ", ".join(found[:NAMED]) + (f" and {more} more" if more > 0 else "")
