"""The texts of a confirmation and of the brokers that are confirmed."""

from __future__ import annotations

import random

import pytest

from bus.contracts.site_confirmation import (
    ConfirmedBy,
    SiteConfirmation,
    SiteConfirmationError,
    members_text,
    parse_confirmation,
    parse_members,
    reason_text,
)
from bus.contracts.site_epoch import who_text


def drawn(dice: random.Random) -> SiteConfirmation:
    words = "".join(map(chr, dice.choices(range(1, 0xD000), k=dice.randrange(1, 300))))
    return SiteConfirmation(
        dice.randrange(1 << 31), dice.choice(list(ConfirmedBy)), dice.randrange(1 << 41),
        who_text("anna", "desk"), reason_text(words) or "none",
    )  # fmt: skip


def drawn_members(dice: random.Random) -> dict[int, bytes]:
    ids = dice.sample(range(1 << 31), k=dice.randrange(8))
    return {broker_id: dice.randbytes(16) for broker_id in ids}


def test_every_confirmation_is_read_back_whatever_the_reason(dice: random.Random) -> None:
    """A person's words, in any script, become what the key can hold."""
    for _ in range(500):
        said = drawn(dice)
        assert parse_confirmation(said.text) == said
    assert reason_text(" B 机房断电\n; reason=x ") == "B 机房断电 ; reason=x"
    assert reason_text("\n\t ") == ""


def test_members_are_read_back_in_one_order(dice: random.Random) -> None:
    """None, or many."""
    for _ in range(300):
        members = drawn_members(dice)
        assert parse_members(members_text(members)) == members


@pytest.mark.parametrize("kind", ["confirmation", "members"])
def test_damaged_texts_are_refused_with_the_parser_s_own_error(
    kind: str, dice: random.Random
) -> None:
    """Nothing else escapes; what is still read is written as it was."""
    for _ in range(2000):
        is_members = kind == "members"
        text = list(members_text(drawn_members(dice)) if is_members else drawn(dice).text)
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(text) + 1)
            text[at : at + dice.randrange(2)] = [chr(dice.randrange(1, 0x3000))] * dice.randrange(3)
        damaged = "".join(text)
        try:
            if is_members:
                assert members_text(parse_members(damaged)) == damaged
            else:
                assert parse_confirmation(damaged).text == damaged
        except SiteConfirmationError:
            continue


@pytest.mark.parametrize(
    "text",
    ["1:AAAAAAAAAAAAAAAAAAAAAA,1:AAAAAAAAAAAAAAAAAAAAAA", "2:AAAAAAAAAAAAAAAAAAAAAA,1:" + "A" * 22,
     "1:AAAAAAAAAAAAAAAAAAAAAB", "01:AAAAAAAAAAAAAAAAAAAAAA", "1:", ","],
)  # fmt: skip
def test_members_twice_out_of_order_or_in_another_spelling_are_none(text: str) -> None:
    """One text for one set: two brokers that compare it see the same."""
    with pytest.raises(SiteConfirmationError):
        parse_members(text)
