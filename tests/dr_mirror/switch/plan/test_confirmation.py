"""What a mirror that has asked both sites tells each of them."""

from __future__ import annotations

import random

from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.domain.site_epochs import (
    Confirm,
    FormerPrimaryFence,
    SiteClusters,
    SiteEpochs,
    due_confirmations,
)
from dr_mirror.switch.plan.confirmation import (
    SiteStanding,
    force_obstacle,
)

SITES = SiteClusters("A", "B")


def epoch(number: int, kind: EpochKind, primary: str) -> SiteEpoch:
    return SiteEpoch(number, kind, primary, SITES.other(primary), 1000, "anna@desk")


PLANNED = epoch(1, EpochKind.PLANNED, "B")
FORCED = epoch(1, EpochKind.FORCED, "B")
REJOINED = epoch(2, EpochKind.REJOINED, "B")
CANCELLED = epoch(2, EpochKind.CANCELLED, "A")


def test_before_the_first_switch_the_source_is_the_primary() -> None:
    """The target holds copies only and waits for nothing."""
    assert due_confirmations(SiteEpochs(SITES, None, None)) == [Confirm("A", 0)]


def test_while_a_switch_is_under_way_nobody_is_told_anything() -> None:
    """The new primary is opened by the switch; one that was given up, too."""
    assert due_confirmations(SiteEpochs(SITES, PLANNED, None)) == []
    assert due_confirmations(SiteEpochs(SITES, PLANNED, CANCELLED)) == []


def test_a_former_primary_that_does_not_know_of_a_switch_is_fenced_and_not_confirmed() -> None:
    """Whether it holds an older epoch or none."""
    assert due_confirmations(SiteEpochs(SITES, None, FORCED)) == [Confirm("B", 1), FormerPrimaryFence("A", FORCED)]
    newer = epoch(4, EpochKind.FORCED, "B")
    older = epoch(3, EpochKind.PLANNED, "A")
    assert due_confirmations(SiteEpochs(SITES, older, newer)) == [Confirm("B", 4), FormerPrimaryFence("A", newer)]


def test_a_primary_whose_former_one_has_rejoined_first_is_confirmed_by_its_own_epoch() -> None:
    """A way back that was killed between its last two steps leaves B without the newest number."""
    assert due_confirmations(SiteEpochs(SITES, REJOINED, FORCED)) == [Confirm("B", 1)]
    assert due_confirmations(SiteEpochs(SITES, REJOINED, REJOINED)) == [Confirm("B", 2)]


def test_epochs_of_other_clusters_tell_nothing() -> None:
    """The settings name another pair."""
    foreign = SiteEpoch(3, EpochKind.PLANNED, "A", "C", 1, "x")
    assert due_confirmations(SiteEpochs(SITES, foreign, None)) == []


def test_never_are_both_confirmed_nor_one_that_the_newest_epoch_calls_secondary(
    dice: random.Random,
) -> None:
    """Of any two epochs that the clusters may hold."""
    for _ in range(2000):
        held = [
            None if dice.random() < 0.2
            else epoch(dice.randrange(1, 5), dice.choice(list(EpochKind)), dice.choice("AB"))
            for _ in range(2)
        ]  # fmt: skip
        epochs = SiteEpochs(SITES, *held)
        told = due_confirmations(epochs)
        confirmed = [one for one in told if isinstance(one, Confirm)]
        assert len(confirmed) <= 1
        for one in confirmed:
            assert one.cluster_id == epochs.primary
            known = epochs.of(one.cluster_id)
            assert one.epoch == (0 if known is None else known.number)
        for each in told:
            if isinstance(each, FormerPrimaryFence):
                assert each.cluster_id == each.epoch.secondary


def test_an_operator_cannot_declare_what_is_known_to_be_wrong() -> None:
    """A secondary; a site that another one has replaced; one that waits for nobody."""
    nobody: frozenset[int] = frozenset()
    waiting = SiteStanding("A", None, frozenset({1}))
    assert force_obstacle(waiting, None) == ""
    assert force_obstacle(waiting, SiteStanding("B", None, nobody)) == ""
    assert "primary since site epoch 1" in force_obstacle(
        waiting, SiteStanding("B", FORCED, nobody)
    )
    secondary = SiteStanding("A", FORCED, frozenset({1}))
    assert "it is the secondary" in force_obstacle(secondary, None)
    assert "no mirror" in force_obstacle(SiteStanding("A", None, None), None)
