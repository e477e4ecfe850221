"""The account over two sites names what is lost, and can fail."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.demo.two_sites import report
from deploy.demo.two_sites.balance import (
    HEARD_WITHIN_MS,
    DivergedPartition,
    OwnRecord,
    SiteRecords,
    SitesReconciliation,
    reconcile_sites,
)
from deploy.reconcile.balance import AlarmTotals, balance

DIED_MS = 1_000_000
EDGE, BUS = frozenset("abc"), frozenset("xy")


def a_tail(own: Iterable[str], *, heard: int = 0, heard_ms: int = DIED_MS - 100) -> DivergedPartition:
    records = [OwnRecord(100 + n, record_id) for n, record_id in enumerate(own)]
    return DivergedPartition(
        topic="data.face", partition=0, end=100, heard_end=100 + heard, heard_ms=heard_ms,
        known_missing=heard, records=records,
    )  # fmt: skip


def account(
    at_b: frozenset[str],
    at_a: frozenset[str] = frozenset("a"),
    *,
    planned: bool = False,
    faults: tuple[str, ...] = (),
    at_switch: int = 1,
    not_heard: tuple[str, ...] = (),
    pictures_at_b: int = 2,
    part: Iterable[str] | None = None,
) -> SitesReconciliation:
    """`part`: what A's disks hold behind the end of B, nothing of it heard; None: all that B
    lacks."""
    own = sorted((EDGE | BUS | at_a) - at_b) if part is None else list(part)
    records = SiteRecords(
        diverged=[a_tail(own)], lost_at_ms=DIED_MS,
        acknowledged={"edge": EDGE, "bus": BUS}, at_a=at_a, at_b=at_b, stored_b=len(at_b),
        stored_b_at_switch=at_switch, edges_not_heard=not_heard, pictures=2,
        pictures_at_b=pictures_at_b,
    )  # fmt: skip
    return reconcile_sites(records, faults, planned=planned)


@pytest.mark.parametrize("planned", [True, False])
def test_all_that_was_acknowledged_is_at_b_and_nothing_is_lost(planned: bool) -> None:
    found = account(EDGE | BUS, planned=planned)
    assert (found.balanced, found.lost) == (True, [])


@pytest.mark.parametrize("planned", [True, False])
def test_a_record_that_the_edge_acknowledged_and_b_lacks_never_balances(planned: bool) -> None:
    found = account((EDGE | BUS) - {"b"}, planned=planned)
    assert found.lost == ["b"]
    assert not found.balanced
    assert ": b" in found.faults[0]


def test_a_loss_without_an_edge_is_named_after_a_kill_and_a_fault_of_a_planned_switch() -> None:
    assert account(EDGE).lost == ["x", "y"]
    assert account(EDGE).balanced
    assert not account(EDGE, planned=True).balanced


def test_what_only_the_store_of_a_has_is_lost_too() -> None:
    found = account(EDGE | BUS, frozenset("az"))
    assert (found.only_at_a, found.lost) == (["z"], ["z"])


def test_faults_of_b_and_silence_of_an_edge_and_an_idle_site_do_not_balance() -> None:
    assert not account(EDGE | BUS, faults=("data.face: 1 off",)).balanced
    assert not account(EDGE | BUS, not_heard=("http://edge",)).balanced
    assert not account(EDGE | BUS, at_switch=5).balanced
    assert not account(EDGE | BUS, frozenset()).balanced
    assert not account(EDGE | BUS, pictures_at_b=1).balanced


@pytest.mark.parametrize("seed", range(50))
def test_whatever_the_books_say_each_missing_record_is_lost_once(seed: int) -> None:
    dice = random.Random(seed)
    everything = sorted(EDGE | BUS | {"z"})
    at_a, at_b = (frozenset(i for i in everything if dice.random() < 0.7) for _ in range(2))
    found = account(at_b, at_a)
    assert found.lost == sorted((EDGE | BUS | at_a) - at_b), f"seed {seed}"
    if EDGE - at_b:
        assert not found.balanced, f"seed {seed}"


def test_a_loss_that_the_report_does_not_name_never_balances() -> None:
    """It ended with 0 whatever was lost without an edge: 1,050 records, and none known to be
    missing."""
    lost = [f"lost-{n}" for n in range(1_050)]
    records = SiteRecords(
        acknowledged={"edge": EDGE, "bus": frozenset(lost)}, at_a=frozenset("a"), at_b=EDGE,
        stored_b=3, stored_b_at_switch=1, known_missing=0, sent_again=0, lost_at_ms=DIED_MS,
    )  # fmt: skip
    found = reconcile_sites(records, (), planned=False)
    assert not found.balanced
    assert (found.lost_known, found.lost_unheard) == (0, 1_050)
    assert "1050 records" in found.faults[0]


@dataclass
class LostSiteWorld:
    """A world that adds up: A's logs behind the ends of B, and what of it came again."""

    diverged: list[DivergedPartition] = field(default_factory=list)
    at_b: set[str] = field(default_factory=lambda: {"edge-there", "bus-there"})
    direct: set[str] = field(default_factory=lambda: {"bus-there"})
    edge: set[str] = field(default_factory=lambda: {"edge-there"})
    sent_again: int = 0
    as_new: int = 0

    def records(self) -> SiteRecords:
        return SiteRecords(
            acknowledged={"edge": frozenset(self.edge), "bus": frozenset(self.direct)},
            at_a=frozenset({"edge-there"}), at_b=frozenset(self.at_b), stored_b=9,
            stored_b_at_switch=1, diverged=self.diverged, lost_at_ms=DIED_MS,
            diverged_sent_again=self.sent_again, perhaps_there=self.as_new,
        )  # fmt: skip

    def account(self) -> SitesReconciliation:
        return reconcile_sites(self.records(), (), planned=False)


FATES = st.sampled_from(["lost", "lost unacknowledged", "again", "as new"])


@st.composite
def forced_switches(draw: st.DrawFn) -> LostSiteWorld:
    world = LostSiteWorld()
    for partition in range(draw(st.integers(1, 3))):
        fates = draw(st.lists(FATES, max_size=12))
        heard = draw(st.integers(0, len(fates)))
        own = [f"{partition}-{n}" for n in range(len(fates))]
        for n, (record_id, fate) in enumerate(zip(own, fates, strict=True)):
            if fate == "lost":
                world.direct.add(record_id)
            if fate in ("again", "as new"):
                world.at_b.add(record_id)
                world.edge.add(record_id)
                world.sent_again += fate == "again" and n < heard
                world.as_new += fate == "as new"
        part = a_tail(own, heard=heard)
        world.diverged.append(msgspec.structs.replace(part, partition=partition))
    return world


@given(forced_switches())
def test_what_the_report_says_is_compared_with_both_sites_to_the_record(world: LostSiteWorld):
    """Whatever is lost without an edge, once it is A's own and the report's numbers are true."""
    found = world.account()
    assert not found.faults
    assert found.lost == sorted(world.direct - world.at_b)
    assert found.lost_known + found.lost_unheard == len(found.lost)
    heard = {one.record_id for part in world.diverged for one in part.reported()}
    assert found.lost_known == len(heard & set(found.lost))


@given(forced_switches(), st.data())
def test_one_record_that_does_not_add_up_is_enough(world: LostSiteWorld, data: st.DataObject):
    """Lost before the end of B; a number of the report that is off by one; a partition of which
    nothing had been heard for long."""
    before = len(world.account().lost)
    change = data.draw(st.sampled_from(["stray", "more", "fewer", "again", "silent"]))
    place = data.draw(st.integers(0, len(world.diverged) - 1))
    part = world.diverged[place]
    if change == "stray":
        world.direct.add("stray")
    elif change in ("more", "fewer"):
        known = part.known_missing + (1 if change == "more" else -1)
        world.diverged[place] = msgspec.structs.replace(part, known_missing=known)
    elif change == "again":
        world.sent_again += 1 + world.as_new
    else:
        late_ms = data.draw(st.sampled_from([-1, DIED_MS - HEARD_WITHIN_MS - 1]))
        world.diverged[place] = msgspec.structs.replace(part, heard_ms=late_ms)
        unheard = {one.record_id for one in part.records} - {o.record_id for o in part.reported()}
        assert world.account().balanced == (not unheard & set(world.account().lost))
        return
    found = world.account()
    assert not found.balanced
    assert len(found.lost) == before + (change == "stray")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_loss_and_every_fault_are_said_in_both_languages(language: str) -> None:
    empty = AlarmTotals(
        expected=set(), raised=[], city_rules=set(), latency_p50_ms=None, latency_p99_ms=None
    )
    said = "\n".join(report.lines(account(EDGE), balance([], empty), language))
    assert "x" in said
    assert "2" in said.splitlines()[-1]
    broken = account(BUS)
    assert broken.faults[0] in "\n".join(report.lines(broken, balance([], empty), language))
