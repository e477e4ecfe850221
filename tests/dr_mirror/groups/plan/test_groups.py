"""Groups' offsets at the target."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.contracts.groups import DISPATCHER, application_group
from dr_mirror.copy.plan.copied_topics import HeldOffsets
from dr_mirror.groups.plan.groups import GroupMirror, GroupSelection

ONE = TopicPartition("data.vehicle", 0)
OFFSETS = st.integers(0, 30)


def at(offset: int, metadata: str = "m") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata)


def test_our_applications_groups_are_each_site_s_own():
    """Whatever the lists say."""
    selection = GroupSelection((".*",), ("theirs",))
    names = (application_group("ingest"), application_group(DISPATCHER), "databus-watch-alone", "theirs", "others")
    assert [name for name in names if selection.selects(name)] == ["others"]


@given(OFFSETS, OFFSETS, OFFSETS)
def test_an_offset_is_never_beyond_what_the_target_holds_and_skips_nothing_there(committed, a, b):
    """Never after where the group stood, but for records that the target does not have."""
    held = HeldOffsets(min(a, b), max(a, b))
    wanted = GroupMirror().changed("g", {ONE: at(committed)}, {ONE: held})[ONE]
    assert held.log_start <= wanted.offset <= held.log_end
    assert wanted.metadata == "m"
    assert wanted.offset <= max(committed, held.log_start)


def test_a_group_follows_the_copy_until_the_target_holds_where_it_stands():
    """Then there is nothing to commit until it moves on; also backwards."""
    mirror, target = GroupMirror(), {}
    for held_end, committed, wanted in ((5, 9, 5), (8, 9, 8), (20, 9, 9), (20, 9, None), (20, 3, 3)):
        changed = mirror.changed("g", {ONE: at(committed)}, {ONE: HeldOffsets(0, held_end)})
        commits = mirror.commits("g", changed, target)
        assert commits == ({} if wanted is None else {ONE: at(wanted)})
        target |= commits
        mirror.on_committed("g", commits)


def test_what_somebody_committed_at_the_target_is_never_put_back():
    """Only the mirror's own commit is; after a restart it knows none."""
    mirror, held = GroupMirror(), {ONE: HeldOffsets(0, 100)}
    changed = mirror.changed("g", {ONE: at(10)}, held)
    assert mirror.commits("g", changed, {ONE: at(50)}) == {}
    assert mirror.commits("g", changed, {ONE: at(7)}) == {ONE: at(10)}
    mirror.on_committed("g", {ONE: at(10)})
    mirror.forget()
    assert mirror.commits("g", mirror.changed("g", {ONE: at(10)}, held), {ONE: at(10)}) == {}
    assert mirror.changed("g", {ONE: at(10)}, held) == {}, "found at the target as it should be"


def test_a_partition_that_is_not_copied_has_no_offsets_at_the_target():
    """Its records are not there."""
    assert GroupMirror().changed("g", {ONE: at(3), TopicPartition("x", 1): at(4)}, {}) == {}
