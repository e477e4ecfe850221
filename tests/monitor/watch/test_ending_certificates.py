"""Certificates that end soon: one incident each, a month ahead, until there is a new one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.watch.ending_certificates import CRITICAL_MS, WARN_MS, CertificateEnd, ending
from tests.monitor.watch.test_judge import BEGIN, JudgedMinutes


def test_it_begins_a_month_ahead_and_ends_with_the_new_certificate() -> None:
    world, ends = JudgedMinutes(), [CertificateEnd("broker-1", BEGIN + WARN_MS + 60_000)]

    def answer() -> None:
        world.judge.on_certificates(ends)

    assert world.passes(55, answer) == []
    assert world.passes(20, answer) == ["certificate:broker-1:open"]
    [incident] = world.judge.open_incidents()
    assert (incident.severity, incident.detail["ends"]) == ("warning", "2025-02-03 14:14 UTC")
    ends[0] = CertificateEnd("broker-1", world.now_ms + 2 * WARN_MS)
    assert world.passes(30, answer) == ["certificate:broker-1:closed"]


def test_it_becomes_critical_a_week_ahead_once_and_one_incident_takes_the_place_of_the_other() -> None:
    world, ends = JudgedMinutes(), [CertificateEnd("broker-1", BEGIN + CRITICAL_MS + 60_000)]

    def answer() -> None:
        world.judge.on_certificates(ends)

    assert world.passes(30, answer) == ["certificate:broker-1:open"]
    assert world.judge.open_incidents()[0].severity == "warning"
    first = world.judge.open_incidents()[0].incident_id
    assert world.passes(45, answer) == ["certificate:broker-1:closed", "certificate:broker-1:open"]
    [incident] = world.judge.open_incidents()
    assert incident.severity == "critical"
    assert incident.incident_id != first
    assert world.passes(600, answer) == []
    ends[0] = CertificateEnd("broker-1", world.now_ms + 2 * WARN_MS)
    assert world.passes(30, answer) == ["certificate:broker-1:closed"]


def test_one_that_has_ended_is_critical_and_while_none_can_be_read_nothing_begins_or_ends() -> None:
    world = JudgedMinutes()
    world.judge.on_certificates([CertificateEnd("authority", BEGIN)])
    assert world.passes(5) == ["certificate:authority:open"]
    assert world.judge.open_incidents()[0].severity == "critical"
    assert world.passes(3_600) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-WARN_MS, 3 * WARN_MS))))
def test_of_two_with_one_name_the_first_end_counts(found: list[tuple[str, int]]) -> None:
    """While authorities change there are two."""
    conditions = ending([CertificateEnd(name, BEGIN + later) for name, later in found], BEGIN)
    names = {name for name, _ in found}
    assert {one.subject for one in conditions} == names
    assert len(conditions) == len(names)
    for one in conditions:
        assert one.is_bad == (min(later for name, later in found if name == one.subject) < WARN_MS)
