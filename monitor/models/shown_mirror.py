"""What the mirror's page `/status` says, as the console and the watch read it. Pure.

In: JSON of the role `mirror`. Out: structs. Never: an import of `dr_mirror`; the page says what its
states mean, in both languages. Keys that are not here are passed over.
"""

from __future__ import annotations

import msgspec


class ShownPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition; -1: not known."""

    topic: str
    partition: int
    state: str
    detail: str
    lag_records: int
    lag_bytes: int
    lag_s: float
    missing: int


class MirroredTopic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is mirrored or cannot be."""

    topic: str
    state: str
    detail: str


class MirroredTopicProof(msgspec.Struct, frozen=True, kw_only=True):
    """What is proven of one topic."""

    topic: str
    complete_to_ms: int
    blocks: int
    unproven_blocks: int
    oldest_s: float
    differences: int
    failures: tuple[str, ...] = ()


class MirroredDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [first_offset, end_offset) at which a replica differs from the source."""

    topic: str
    partition: int
    broker: int
    directory: str
    first_offset: int
    end_offset: int
    found_ms: int
    detail: str


class MirroredProof(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared all the time."""

    topics: tuple[MirroredTopicProof, ...] = ()
    differences: tuple[MirroredDifference, ...] = ()
    bytes_per_s: float = 0.0
    not_compared: dict[str, str] = {}
    unavailable: str = ""


class MirroredEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge that keeps what the target lacks. `uncovered_records`: those it could not keep;
    `problem`: why it says nothing now."""

    url: str
    heard_ms: int = -1
    sends_to: str = ""
    kept_records: int = 0
    uncovered_records: int = 0
    problem: str = ""


class MirroredPictures(msgspec.Struct, frozen=True, kw_only=True):
    """Copying of pictures. `oldest_ms`, `unread_records` -1: none, not known. `shown_given_up`:
    some names, each with `: ` and why."""

    policy: str = "none"
    waiting: int = 0
    oldest_ms: int = -1
    unread_records: int = -1
    copied: int = 0
    copied_bytes: int = 0
    given_up: int = 0
    shown_given_up: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    compared: int = 0
    differing: tuple[str, ...] = ()
    oldest_compared_ms: int = -1
    problem: str = ""

    def why_absent(self, name: str) -> str:
        """Why the site that copies from the other one has no picture of that name."""
        if self.policy == "none":
            return "the mirror copies no pictures ([mirror] pictures)"
        if name in self.other:
            return "the mirror found another picture of that name at this site"
        known = [one for one in self.shown_given_up if one.startswith(f"{name}: ")]
        if known:
            return f"the mirror gave it up: {known[0].removeprefix(f'{name}: ')}"
        if self.problem:
            return f"the mirror copies no picture now: {self.problem}"
        which = "of alarms only" if self.policy == "hits" else "of all records"
        return f"the mirror copies pictures {which}; {self.waiting} are not here yet"


class MirroredStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the mirror said at `at_ms`. `rpo_s` -1: not known; `rto_s` -1: there was no drill.
    `rpo_through_edges_s` -1: not known, or no edge is named."""

    at_ms: int
    source_cluster_id: str
    target_cluster_id: str
    generation: int
    unreachable: str
    rpo_s: float
    topics: tuple[MirroredTopic, ...]
    partitions: tuple[ShownPartition, ...]
    groups_not_copied: dict[str, str]
    proof: MirroredProof = MirroredProof()
    rto_s: float = -1.0
    drilled_ms: int = -1
    edges: tuple[MirroredEdge, ...] = ()
    rpo_through_edges_s: float = -1.0
    pictures: MirroredPictures = MirroredPictures()


class MirrorRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """A state, what it means and what to do."""

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


class MirrorLagPoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far the target was behind at a time; -1: not known."""

    at_ms: int
    lag_records: int
    rpo_s: float


class ShownMirror(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    status: MirroredStatus
    states: tuple[MirrorRemedy, ...]
    curve: tuple[MirrorLagPoint, ...]
