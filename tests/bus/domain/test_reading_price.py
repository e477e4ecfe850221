"""The price of a reading for a plate: an edit distance with measured prices."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.accepted_readings import accepted_readings
from bus.domain.fuzzy_plate import FuzzyPlate
from bus.domain.misreading_prices import LEAST, LEAST_OF_PLACE, UNKNOWN, MisreadingPrices, prices_of
from bus.domain.plate_confusion import BAND_MIDDLES, ConfusionCounts, band_of, counts_of, text_of
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from bus.domain.reading_price import MOST_EDITS, Sure, character_confidences, reading_price
from bus.domain.reading_sources import ReadingSources

PRICES = prices_of(FIT)


def test_what_is_often_misread_is_cheaper_than_what_is_seldom() -> None:
    """D is read as 0 more than a hundred times, 8 as B once."""
    assert PRICES.substitution("D", "0") < PRICES.substitution("8", "B") < UNKNOWN
    assert PRICES.substitution("D", "W") == UNKNOWN
    assert PRICES.substitution("港", "0") == PRICES.deletion("港") == UNKNOWN


def test_what_the_reader_says_of_a_character_changes_the_price() -> None:
    prices = [PRICES.substitution("D", "0", sure) for sure in BAND_MIDDLES]
    assert prices == sorted(prices)
    assert LEAST <= prices[0] < PRICES.substitution("D", "0") < prices[-1]
    assert PRICES.substitution("D", "W", 0.5) == UNKNOWN


def test_all_prices_of_a_table_lie_between_the_least_and_that_without_evidence() -> None:
    for counts in (FIT, HELD_OUT, ConfusionCounts(0, 0, 0, {}, {}, (0,) * 6, (0,) * 6)):
        prices = prices_of(counts)
        rows = (*prices.taken_for.values(), prices.unread, prices.dropped, prices.inserted)
        assert all(LEAST <= price <= UNKNOWN for row in rows for price in row.values())


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("浙-80,A-90,1-100", "浙A1", (0.8, 0.9, 1.0)),
        ("99,99,98", "浙A1", (0.99, 0.99, 0.98)),
        ("0.5,1,0", "浙A1", (0.5, 1.0, 0.0)),
        ("浙-80,A-90", "浙A1", None),
        ("浙-80,A-x,1-1", "浙A1", None),
        ("80,90,101", "浙A1", None),
        ("nan,1,1", "浙A1", None),
        ("", "浙A1", None),
    ],
)
def test_confidences_are_read_as_devices_write_them(text: str, read: str, expected: Sure) -> None:
    assert character_confidences(text, read) == expected


@given(st.text(max_size=40), st.text(max_size=8))
def test_confidences_are_one_share_per_character_or_none(text: str, read: str) -> None:
    found = character_confidences(text, read)
    assert found is None or (len(found) == len(read) and all(0 <= one <= 1 for one in found))


@given(st.dictionaries(st.sampled_from("浙AB10?-"), st.integers(1, 10**6)))
def test_counts_are_read_as_they_are_written(counts: dict[str, int]) -> None:
    assert counts_of(text_of(counts)) == counts


def test_each_band_has_its_number() -> None:
    assert [band_of(sure) for sure in BAND_MIDDLES] == list(range(len(BAND_MIDDLES)))


_signs = st.sampled_from("浙新AD0MNQ8B")
_plates = st.text(_signs, min_size=1, max_size=7)


def plain_price(plate: str, read: str, prices: MisreadingPrices, sure: Sure) -> float:
    """The same by the textbook: no bound, nothing left out; infinity above `MOST_EDITS`."""

    @cache
    def lowest(at: int, to: int, edits: int) -> float:
        if edits < 0:
            return float("inf")
        if at == len(plate) and to == len(read):
            return 0.0
        own = sure[to] if sure is not None and to < len(read) else None
        found = float("inf")
        if at < len(plate) and to < len(read):
            is_same = plate[at] == read[to]
            price = 0.0 if is_same else prices.substitution(plate[at], read[to], own)
            found = price + lowest(at + 1, to + 1, edits - (not is_same))
        if at < len(plate):
            found = min(found, prices.deletion(plate[at]) + lowest(at + 1, to, edits - 1))
        if to < len(read):
            found = min(found, prices.insertion(read[to], own) + lowest(at, to + 1, edits - 1))
        return found

    return 0.0 if plate == read else lowest(0, 0, MOST_EDITS)


@given(_plates, st.text(st.sampled_from("浙新AD0MNQ8B?"), max_size=7), st.floats(0.1, 2), st.data())
def test_it_is_that_of_the_textbook_as_far_as_the_bound(
    plate: str, read: str, highest: float, data: st.DataObject
) -> None:
    sure = data.draw(
        st.none() | st.lists(st.floats(0, 1), min_size=len(read), max_size=len(read))
    )
    plain = plain_price(plate, read, PRICES, sure)
    found = reading_price(plate, read, PRICES, highest, sure)
    assert found == pytest.approx(plain) if plain <= highest - 1e-9 else found in (None, plain)


def test_an_example_is_a_reading_that_the_rule_accepts_the_cheapest_first() -> None:
    examples = accepted_readings(FuzzyPlate("浙A8D345", 1.0), PRICES, most=1000)
    prices = [reading_price("浙A8D345", read, PRICES, 1.0) for read in examples]
    assert examples[0] == "浙A80345"
    assert None not in prices
    assert prices == sorted(one for one in prices if one is not None)
    assert len(accepted_readings(FuzzyPlate("浙A8D345", 1.0), PRICES)) == 5
    assert accepted_readings(FuzzyPlate("浙A11111", 0.2), PRICES) == []


def test_sources_refuse_a_price_at_which_a_character_may_be_too_few() -> None:
    with pytest.raises(ValueError, match="too few"):
        ReadingSources(PRICES, LEAST_OF_PLACE)
