"""Which offsets of which groups are committed at the target. Pure.

In: what groups have committed on both sides, what the target holds. Out: commits.
Never: an offset beyond what the target holds, one that skips a record the target has, or one over
a commit that somebody made at the target and that is further.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.model import GroupOffsets, OffsetAndMetadata, TopicPartition
from dr_mirror.copy.plan.copied_topics import HeldOffsets
from dr_mirror.policy.selection import TopicSelection, never_patterns

NEVER_GROUPS = (r"streams-.*", r"dispatcher", r"databus-.*", r".*-alone")
"""Our applications run at both sites; what they have done at one says nothing of the other."""


class GroupSelection:
    """The lists of groups, compiled; raises SelectionError."""

    def __init__(self, white_list: tuple[str, ...], black_list: tuple[str, ...]) -> None:
        self._lists = TopicSelection(white_list, black_list, never_patterns(NEVER_GROUPS))

    def selects(self, group: str) -> bool:
        """Whether its offsets are copied."""
        return self._lists.selects(group)


class GroupMirror:
    """Invariant: `_copied` is what this mirror has committed at the target and found accepted."""

    def __init__(self) -> None:
        self._copied: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}

    def changed(
        self, group: str, source: GroupOffsets, held: Mapping[TopicPartition, HeldOffsets]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the target should hold of this group and was not given yet."""
        copied = self._copied.get(group, {})
        wanted = {
            partition: _within(committed, held[partition])
            for partition, committed in source.items()
            if partition in held and committed.offset >= 0
        }
        return {key: value for key, value in wanted.items() if copied.get(key) != value}

    def commits(
        self,
        group: str,
        wanted: Mapping[TopicPartition, OffsetAndMetadata],
        target: GroupOffsets,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of `changed`, what may be committed over what the target has.

        An offset goes back only where the newest commit at the target is this mirror's own.
        """
        copied = self._copied.get(group, {})
        found = {}
        for partition, offset in wanted.items():
            at_target = target.get(partition)
            if at_target == offset:
                self.on_committed(group, {partition: offset})
            elif (
                at_target is None
                or at_target == copied.get(partition)
                or offset.offset > at_target.offset
            ):
                found[partition] = offset
        return found

    def on_committed(self, group: str, commits: GroupOffsets) -> None:
        """The target has them."""
        self._copied.setdefault(group, {}).update(commits)

    def forget(self) -> None:
        """Commit all again: commits of a group without members expire at the target."""
        self._copied.clear()


def _within(committed: OffsetAndMetadata, held: HeldOffsets) -> OffsetAndMetadata:
    """Records before the log start are nowhere at the target; those behind its end are not there
    yet."""
    offset = max(min(committed.offset, held.log_end), held.log_start)
    return OffsetAndMetadata(offset, committed.metadata)
