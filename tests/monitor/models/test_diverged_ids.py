"""Which rows of a site came from records that only it had."""

from __future__ import annotations

import random

import pytest

from bus.contracts.diverged_ranges import DivergedRange
from monitor.console.mirror_rows import diverged_id_facts
from monitor.i18n import texts
from monitor.models.diverged_ids import DivergedIds


def a_part(epoch: int, offset: int, *ids: str) -> DivergedRange:
    return DivergedRange(
        epoch=epoch, topic="data.face", partition=0, offset=offset, end_offset=offset + len(ids), ids=ids
    )


def test_parts_in_any_order_and_more_than_once_count_every_record_once(dice: random.Random) -> None:
    """A command that was killed says parts again, and others over the same records."""
    for _ in range(100):
        ids = [f"id-{number}" for number in range(40)]
        parts = []
        for _ in range(dice.randrange(1, 30)):
            at, epoch = dice.randrange(40), dice.randrange(1, 4)
            parts.append(a_part(epoch, at, *ids[at : at + dice.randrange(12)]))
        tails = DivergedIds()
        for part in dice.sample(parts * 2, 2 * len(parts)):
            tails.apply(part)
        newest = {
            each: max(epochs)
            for each in ids
            if (epochs := [part.epoch for part in parts if each in part.ids])
        }
        assert {each: tails.epoch_of(each) for each in ids} == dict.fromkeys(ids, 0) | newest
        held = list(newest.values())
        assert tails.counts() == {epoch: held.count(epoch) for epoch in sorted(set(held), reverse=True)}
        assert tails.not_held == 0


def test_records_beyond_the_bound_are_counted_once_and_not_marked() -> None:
    """Memory is bounded; what was held before stays."""
    tails = DivergedIds(most=3)
    tails.apply(a_part(1, 0, "a", "b"))
    for _ in range(2):
        tails.apply(a_part(2, 0, "c", "d", "e"))
    assert [tails.epoch_of(each) for each in "abcde"] == [1, 1, 2, 0, 0]
    assert tails.counts() == {2: 3, 1: 2}
    assert tails.not_held == 2
    tails.apply(a_part(3, 0, "a"))
    assert tails.counts() == {3: 1, 2: 3, 1: 1}


@pytest.mark.parametrize(("language", "said"), [("en", "site epoch 2"), ("zh", "站点纪元 2")])
def test_the_page_says_how_many_of_each_site_epoch_and_that_some_are_not_marked(
    language: str, said: str
) -> None:
    """Nothing where no site came back."""
    t = texts(language)
    assert diverged_id_facts(DivergedIds(), t) == []
    tails = DivergedIds(most=1)
    tails.apply(a_part(2, 0, *(f"id-{number}" for number in range(1_000))))
    (epoch, count), (_, too_many) = diverged_id_facts(tails, t)
    assert epoch == said
    assert "1,000" in count
    assert "999" in too_many
