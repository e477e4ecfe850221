"""Which topics are mirrored."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.topics import METER_ARRIVED, METER_SENT, TOPICS, Flow
from dr_mirror.policy.selection import SelectionError, TopicSelection


def test_by_default_the_flow_of_data_is_mirrored_and_nothing_that_a_site_derives_or_commands():
    """Row D-2: data, what was sent and arrived, quarantine; every topic of the bus is decided on."""
    mirrored = {name for name in TOPICS if TopicSelection().selects(name)}
    flows = (Flow.DATA, Flow.QUARANTINE)
    assert mirrored == {
        *(name for name, topic in TOPICS.items() if topic.flow in flows), METER_SENT, METER_ARRIVED,
    }  # fmt: skip


def test_the_black_list_wins_over_the_white_one():
    """Whole names are matched."""
    selection = TopicSelection([r"data\..*", "other"], [r"data\.face"])
    names = ("data.vehicle", "data.face", "data.faces", "other", "others", "my.data.vehicle")
    assert [name for name in names if selection.selects(name)] == [
        "data.vehicle", "data.faces", "other",
    ]  # fmt: skip


@given(st.sampled_from(["__", "control.", "state.", "event."]), st.text("abc.-_09", max_size=20))
def test_commands_events_and_internal_topics_are_mirrored_by_no_list(prefix: str, rest: str):
    """Two sites would both act."""
    assert not TopicSelection([".*"]).selects(prefix + rest)


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2", "\\", "(?=x)", "x" * 1001, "(a{999}){999}"])
def test_a_pattern_that_cannot_be_used_is_named(pattern: str):
    """Look-ahead is none of RE2's."""
    if pattern == "a{2":  # literal in RE2
        assert TopicSelection([pattern]).selects("a{2")
        return
    with pytest.raises(SelectionError) as caught:
        TopicSelection(["good", pattern])
    assert pattern[:20].replace("\\", "\\\\") in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_an_error_of_the_selection(pattern: str):
    """Nothing else escapes."""
    with contextlib.suppress(SelectionError):
        TopicSelection([pattern]).selects("data.vehicle")


def test_no_pattern_stalls():
    """What backtracking engines take years for."""
    begin = time.monotonic()
    TopicSelection([r"(a+)+$", r"(a|aa)+$"]).selects("a" * 249 + "!")
    assert time.monotonic() - begin < 1
