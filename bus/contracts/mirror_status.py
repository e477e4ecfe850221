"""What the mirror says of itself: its status file, and its page `/status` for consoles. Pure.

In: nothing. Out: structs that encode to JSON and come back; the role `mirror` fills them, commands,
the console and the watch read them. Never: a text that only one language has; a console needs
nothing of the mirror to show it. Keys that are not here are passed over.
"""

from __future__ import annotations

import msgspec


class AclStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands. `carried`: ACLs of the source that the target has. `by_hand`: those that are
    patterns and that the target lacks; `only_at_target`: reading that the source does not allow;
    of both the first `SHOWN`. `problem`: why they were not compared last. `at_ms` -1: never, or one
    side has none."""

    carried: int = 0
    by_hand: tuple[str, ...] = ()
    only_at_target: tuple[str, ...] = ()
    problem: str = ""
    at_ms: int = -1


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of `mirror.edge_urls`. `heard_ms`: when it answered last, -1: never. `sends_to`:
    `home` or `second`. `uncovered_records`: deleted before the other site had them. `problem`: why
    it says nothing of a second site; empty: it does."""

    url: str
    heard_ms: int = -1
    sends_to: str = ""
    kept_records: int = 0
    uncovered_records: int = 0
    problem: str = ""



class PictureStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Of the pictures. `policy`: `none`, `hits` or `all`. `waiting`: known and not at the target,
    the first of them since `oldest_ms` (-1: none). `unread_records`: of the topics that say what is
    copied, -1: not known. `given_up`: never came at the source, or the target takes none like them;
    `shown_given_up` some of those. `other`: names under which the target has another picture.
    `compared`: copied ones that are compared again, of which `differing` are not what was copied,
    the one that waits longest since `oldest_compared_ms` (-1: none). `problem`: why nothing is
    copied now."""

    policy: str = "none"
    waiting: int = 0
    oldest_ms: int = -1
    unread_records: int = -1
    copied: int = 0
    copied_bytes: int = 0
    present: int = 0
    given_up: int = 0
    shown_given_up: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    compared: int = 0
    differing: tuple[str, ...] = ()
    oldest_compared_ms: int = -1
    problem: str = ""

    @property
    def needs_someone(self) -> bool:
        """Whether a picture is not what it should be, or nothing is copied."""
        return bool(self.other or self.differing or self.problem)


class StateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. `carried`: records since the mirror began. `caught_up_ms`: until when the other
    site knows all; -1: not known. `newer_there`: entries that the secondary has newer."""

    kind: str
    topic: str
    carried: int = 0
    caught_up_ms: int = -1
    newer_there: int = 0
    problem: str = ""


class ReplicaDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [first_offset, end_offset) at which a replica at the target does not hold what the
    source has. `directory`: its log directory; empty where it could not be asked."""

    topic: str
    partition: int
    broker: int
    directory: str
    first_offset: int
    end_offset: int
    found_ms: int
    detail: str


class TopicProof(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `complete_to_ms`: every replica holds, proven, all that the source had at this
    time; -1: not known. `blocks` are proven on every replica, `unproven_blocks` are not, by
    offsets. `oldest_s`: since when the block that waits longest has not been read; -1: nothing to
    prove."""

    topic: str
    complete_to_ms: int
    blocks: int
    unproven_blocks: int
    oldest_s: float
    differences: int
    failures: tuple[str, ...] = ()


class ProofStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All topics. `compared_blocks` and `read_bytes` count since the process began, every replica
    and every time; `not_compared`: topics that are copied and not compared, and why."""

    topics: tuple[TopicProof, ...] = ()
    differences: tuple[ReplicaDifference, ...] = ()
    compared_blocks: int = 0
    read_bytes: int = 0
    bytes_per_s: float = 0.0
    not_compared: dict[str, str] = {}
    unavailable: str = ""
    """Why records of reconciliation cannot be kept; empty: they are."""


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `lag_records` -1 and `lag_s` -1: not known. `missing`: offsets that the source
    deleted before they were copied, never to come. `source_heard_ms`: when its leader at the source
    answered last, -1: never; `source_end` is what it said."""

    topic: str
    partition: int
    state: str
    detail: str
    source_end: int
    target_end: int
    lag_records: int
    lag_bytes: int
    lag_s: float
    missing: int
    copied_records: int
    copied_bytes: int
    source_heard_ms: int = -1


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is selected, or that the target keeps of the source."""

    topic: str
    state: str
    detail: str


class SiteConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """Who confirmed last that a cluster is the primary. `by`: mirror, edge, operator or switch."""

    cluster_id: str
    epoch: int
    by: str
    at_ms: int
    who: str
    reason: str


class MirrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `rpo_s`: age of the oldest record that is not at the target; -1: not known.
    `groups_not_copied`: groups whose offsets the target refuses, and why. `rebuilt_batches`: those
    that an ordinary target could not have as they were. `groups_copied_ms`: what the other groups
    committed before that is at the target; -1: not known. `rto_s`: what the longer way of the last
    drill took, at `drilled_ms`; -1: there was none. `rpo_through_edges_s`: of what came through
    `edges`; -1: not known, or there are none. `confirmed`: of the clusters that anybody ever
    confirmed, the last time."""

    at_ms: int
    source_cluster_id: str
    target_cluster_id: str
    generation: int
    unreachable: str
    buffered_bytes: int
    rpo_s: float
    topics: tuple[TopicStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    groups_not_copied: dict[str, str]
    rebuilt_batches: int = 0
    groups_copied_ms: int = -1
    proof: ProofStatus = ProofStatus()
    rto_s: float = -1.0
    drilled_ms: int = -1
    edges: tuple[EdgeStatus, ...] = ()
    rpo_through_edges_s: float = -1.0
    state: tuple[StateStatus, ...] = ()
    confirmed: tuple[SiteConfirmed, ...] = ()
    pictures: PictureStatus = PictureStatus()
    acls: AclStatus = AclStatus()


class LagPoint(msgspec.Struct, frozen=True):
    """How far the target was behind at a time; -1: not known."""

    at_ms: int
    lag_records: int
    lag_bytes: int
    rpo_s: float


class StateRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """A state that something is in: what it means and what to do, in both languages."""

    state: str
    meaning_en: str
    meaning_zh: str
    remedy_en: str
    remedy_zh: str

    def meaning(self, language: str) -> str:
        """In one language."""
        return self.meaning_zh if language == "zh" else self.meaning_en

    def remedy(self, language: str) -> str:
        """In one language."""
        return self.remedy_zh if language == "zh" else self.remedy_en


class MirrorReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    status: MirrorStatus
    states: tuple[StateRemedy, ...]
    curve: tuple[LagPoint, ...]
