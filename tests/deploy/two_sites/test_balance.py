"""The account over two sites names what is lost, and can fail."""

from __future__ import annotations

import random

import pytest

from deploy.reconcile.balance import AlarmTotals, balance
from deploy.two_sites import report
from deploy.two_sites.balance import SiteRecords, SitesReconciliation, reconcile_sites

EDGE, BUS = frozenset("abc"), frozenset("xy")


def account(
    at_b: frozenset[str],
    at_a: frozenset[str] = frozenset("a"),
    *,
    planned: bool = False,
    faults: tuple[str, ...] = (),
    at_switch: int = 1,
    not_heard: tuple[str, ...] = (),
    pictures_at_b: int = 2,
) -> SitesReconciliation:
    records = SiteRecords(
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
