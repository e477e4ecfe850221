"""The site epoch's text and order."""

from __future__ import annotations

import random

import pytest

from bus.contracts.site_epoch import (
    EpochKind,
    SiteEpoch,
    SiteEpochError,
    check_follows,
    parse_site_epoch,
    who_text,
)

BASE64 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def drawn(dice: random.Random, number: int | None = None) -> SiteEpoch:
    primary, secondary = ("".join(dice.choices(BASE64, k=22)) for _ in range(2))
    who = who_text(
        "".join(map(chr, dice.choices(range(1, 0x5000), k=dice.randrange(1, 90)))), "host"
    )
    return SiteEpoch(
        number or dice.randrange(1, 1 << 31), dice.choice(list(EpochKind)), primary, secondary,
        dice.randrange(1 << 41), who,
    )  # fmt: skip


def test_every_epoch_is_read_back_from_its_text(dice: random.Random) -> None:
    """Whatever the operator's name is."""
    for _ in range(500):
        epoch = drawn(dice)
        assert parse_site_epoch(epoch.text) == epoch


def test_damaged_texts_are_refused_with_the_parser_s_own_error(dice: random.Random) -> None:
    """Nothing else escapes; what is still read is written as it was."""
    for _ in range(2000):
        text = list(drawn(dice).text)
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(text))
            text[at : at + dice.randrange(2)] = [chr(dice.randrange(1, 0x3000))] * dice.randrange(3)
        damaged = "".join(text)
        try:
            assert parse_site_epoch(damaged).text == damaged
        except SiteEpochError:
            continue


@pytest.mark.parametrize("text", ["", "number=0", "7", "number=1;kind=planned"])
def test_other_texts_are_no_epochs(text: str) -> None:
    """An empty one neither."""
    with pytest.raises(SiteEpochError):
        parse_site_epoch(text)


def test_of_proposals_of_one_number_only_the_first_is_taken(dice: random.Random) -> None:
    """In any order, repetitions included; the number only rises."""
    for _ in range(200):
        proposals = [drawn(dice, dice.randrange(1, 5)) for _ in range(8)]
        taken: list[SiteEpoch] = []
        for wanted in dice.choices(proposals, k=40):
            present = taken[-1] if taken else None
            try:
                check_follows(present, wanted)
            except SiteEpochError:
                continue
            if wanted != present:
                taken.append(wanted)
        numbers = [one.number for one in taken]
        assert numbers == sorted(set(numbers))
