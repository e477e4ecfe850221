"""When ACLs are compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dr_mirror.acls.plan.acl_schedule import EVERY_S, POLL_S, AclSchedule

TOPICS = st.sampled_from(["data.vehicle", "data.face", "data.phone", "event.alarm"])


def compared(looks: list[frozenset[str]]) -> list[int]:
    """At which of these looks, `POLL_S` apart, ACLs are compared."""
    schedule = AclSchedule()
    found = []
    for number, copied in enumerate(looks):
        if schedule.is_due(copied, number * POLL_S):
            schedule.begin(copied, number * POLL_S)
            found.append(number)
    return found


def test_a_topic_that_comes_after_the_first_look_is_compared_at_the_next_one():
    """Not up to a minute later, for as long nobody may read it at the target."""
    assert compared([frozenset(), frozenset({"data.face"}), frozenset({"data.face"})]) == [0, 1]


@given(st.lists(st.frozensets(TOPICS), min_size=1, max_size=120))
def test_each_topic_is_in_a_comparison_at_the_look_that_sees_it_first(looks: list[frozenset[str]]):
    """Since the last comparison; and without news one is made a minute after the other."""
    found = compared(looks)
    assert found[0] == 0
    every = round(EVERY_S / POLL_S)
    last = 0
    for number, copied in enumerate(looks):
        is_new = not copied <= looks[last]
        assert (number in found) == (number == 0 or is_new or number - last >= every)
        last = number if number in found else last
