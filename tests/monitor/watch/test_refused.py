"""Refused requests are one incident for each reason and maker, whichever edge refuses them."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts.alarms import Incident
from bus.contracts.sender_faults import FIRST_PEERS, RefusedGroup
from monitor.watch.judge import WatchBounds, WatchJudge
from monitor.watch.refused import BOUND_MS, MAX_GROUPS, OPEN_MS, RefusedJudge

BEGIN = 1_800_000_000_000
STREET = [f"10.0.0.{number}" for number in range(1, 251)]


def group(
    peers: list[str], reason: str = "foreign-form", maker: str = "M", idle_s: float = 0
) -> RefusedGroup:
    """As an edge tells it."""
    return RefusedGroup(
        reason=reason, maker=maker, requests=2 * len(peers), peers=len(peers), idle_s=idle_s,
        first_peers=peers[:FIRST_PEERS],
    )  # fmt: skip


def passes(
    judge: WatchJudge, begin_ms: int, seconds: int, ask: Callable[[int], None]
) -> list[Incident]:
    """What has changed meanwhile; the edges are asked every fifth second."""
    found: list[Incident] = []
    for second in range(seconds):
        if second % 5 == 0:
            ask(second)
        found += judge.tick(begin_ms + 1000 * (second + 1))
    return found


def test_a_street_of_wrongly_set_cameras_is_one_incident_with_its_first_hundred() -> None:
    """It opens within the bound, names number, maker and reason, and ends ten minutes after the
    last; an edge that has started again has forgotten and changes nothing."""
    judge = WatchJudge(BEGIN, ZoneInfo("UTC"), WatchBounds())

    def both(_: int) -> None:
        judge.on_refused("edge", [group(STREET[:200])])
        judge.on_refused("edge-2", [group(STREET[200:])])

    [opened] = passes(judge, BEGIN, 120, both)
    assert (opened.kind, opened.state, opened.notified_by) == ("refused", "open", "watch")
    assert opened.detail["subject"] == "foreign-form M"
    assert opened.detail["peers"] == "250"
    assert opened.detail["first"].split(", ") == [*STREET[:100], "+150"]
    assert opened.detail["edges"] == "edge, edge-2"
    silent_s = OPEN_MS // 1000
    still = passes(judge, BEGIN + 120_000, silent_s - 10, lambda _: judge.on_refused("edge", []))
    assert still == []
    later = BEGIN + 120_000 + OPEN_MS - 10_000
    [closed] = passes(judge, later, 60, lambda _: judge.on_refused("edge", []))
    assert (closed.incident_id, closed.state) == (opened.incident_id, "closed")
    assert closed.detail["peers"] == "250"


def test_reasons_and_makers_are_incidents_of_their_own() -> None:
    """And what was refused long ago opens none."""
    judge = WatchJudge(BEGIN, ZoneInfo("UTC"), WatchBounds())
    groups = [
        group(["a"]), group(["a"], maker=""), group(["a"], reason="denied"),
        group(["b"], reason="too-large", idle_s=OPEN_MS / 1000 + 1),
    ]  # fmt: skip
    found = passes(judge, BEGIN, 60, lambda _: judge.on_refused("edge", groups))
    assert {one.detail["subject"] for one in found} == {
        "foreign-form M", "foreign-form -", "denied M",
    }  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["edge", "edge-2"]), st.integers(0, 300), st.integers(0, 900)),
        max_size=80,
    )
)
def test_a_condition_is_bad_exactly_while_a_refusal_is_young(
    answers: list[tuple[str, int, int]],
) -> None:
    """Whoever told of it; and the groups that are remembered have a bound."""
    judge, now_ms, last = RefusedJudge(), BEGIN, dict[str, int]()
    for edge, number, idle_s in answers:
        now_ms += 5_000
        found = judge.observe(edge, [group(["p"], reason=f"r{number}", idle_s=idle_s)], now_ms)
        last[f"r{number} M"] = max(last.get(f"r{number} M", 0), now_ms - 1000 * idle_s)
        assert len(found) <= MAX_GROUPS
        assert {one.subject: one.is_bad for one in found} == {
            subject: now_ms - at_ms < OPEN_MS for subject, at_ms in last.items()
        }
        assert all(one.bound_ms == BOUND_MS for one in found)
