"""The price of a reading for a plate: an edit distance with measured prices."""

from __future__ import annotations

from functools import cache
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.accepted_readings import accepted_readings
from bus.domain.fuzzy_plate import FuzzyPlate
from bus.domain.misreading_prices import LEAST, LEAST_OF_PLACE, UNKNOWN, UNSAID, prices_of
from bus.domain.plate_confusion import BANDS, ConfusionCounts, band_of, counts_of, text_of
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from bus.domain.reading_price import MOST_EDITS, Bands, confidence_bands, reading_price
from bus.domain.reading_sources import ReadingSources

PRICES = prices_of(FIT)


def test_what_is_often_misread_is_cheaper_than_what_is_seldom() -> None:
    """D is read as 0 more than a hundred times, 8 as B once."""
    assert PRICES.substitution("D", "0", UNSAID) < PRICES.substitution("8", "B", UNSAID) < UNKNOWN
    assert PRICES.substitution("D", "W", UNSAID) == UNKNOWN
    assert PRICES.substitution("港", "0", UNSAID) == PRICES.deletion("港") == UNKNOWN


def test_the_surer_the_reader_the_dearer_a_misreading_and_the_cheaper_what_is_right() -> None:
    bands = [band_of(sure) for sure in (0.5, 0.7, 0.85, 0.92, 0.97, 0.995)]
    assert bands == list(range(BANDS))
    misread = [PRICES.substitution("D", "0", band) for band in bands]
    assert misread == sorted(misread)
    assert misread[0] < PRICES.substitution("D", "0", UNSAID) < misread[-1]
    right = [PRICES.substitution("D", "D", band) for band in bands]
    assert right == sorted(right, reverse=True)
    assert 0 < right[-1] < right[0] < LEAST_OF_PLACE
    assert PRICES.substitution("D", "W", bands[0]) == UNKNOWN < PRICES.substitution("D", "W", 5)


def test_all_prices_of_a_table_lie_between_the_least_and_that_without_evidence() -> None:
    for counts in (FIT, HELD_OUT, ConfusionCounts(0, 0, 0, {}, {}, (0,) * BANDS, (0,) * BANDS)):
        prices = prices_of(counts)
        rows = [row for band in prices.taken_for for row in band.values()]
        for row in (*rows, prices.unread, prices.dropped, prices.inserted):
            assert all(LEAST <= price <= UNKNOWN for price in row.values())
        assert min((*prices.dropped.values(), *prices.inserted.values()), default=1) >= LEAST_OF_PLACE


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("浙-80,A-90,1-100", "浙A1", (2, 3, 5)),
        ("99,99,98", "浙A1", (5, 5, 4)),
        ("0.5,1,0", "浙A1", (0, 5, 0)),
        ("浙-80,A-90", "浙A1", (UNSAID,) * 3),
        ("浙-80,A-x,1-1", "浙A1", (UNSAID,) * 3),
        ("80,90,101", "浙A1", (UNSAID,) * 3),
        ("nan,1,1", "浙A1", (UNSAID,) * 3),
        ("", "浙A1", (UNSAID,) * 3),
        ("", "", ()),
    ],
)
def test_confidences_are_read_as_devices_write_them(text: str, read: str, expected: Bands) -> None:
    assert confidence_bands(text, read) == expected


@given(st.text(max_size=40) | st.text("0123456789.,-en", max_size=12), st.text(max_size=8))
def test_confidences_are_one_band_per_character(text: str, read: str) -> None:
    found = confidence_bands(text, read)
    assert len(found) == len(read)
    assert all(0 <= band <= UNSAID for band in found)


@given(st.dictionaries(st.sampled_from("浙AB10?-"), st.integers(1, 10**6)))
def test_counts_are_read_as_they_are_written(counts: dict[str, int]) -> None:
    assert counts_of(text_of(counts)) == counts


_signs = st.sampled_from("浙新AD0MNQ8B")
_plates = st.text(_signs, min_size=1, max_size=7)


def plain_price(plate: str, read: str, bands: Bands) -> float:
    """The same by the textbook: no bound, nothing left out; infinity above `MOST_EDITS`."""

    @cache
    def lowest(at: int, to: int, edits: int) -> float:
        if edits < 0:
            return inf
        if at == len(plate) and to == len(read):
            return 0.0
        found = inf
        if at < len(plate) and to < len(read):
            price = PRICES.substitution(plate[at], read[to], bands[to])
            found = price + lowest(at + 1, to + 1, edits - (plate[at] != read[to]))
        if at < len(plate):
            found = min(found, PRICES.deletion(plate[at]) + lowest(at + 1, to, edits - 1))
        if to < len(read):
            found = min(found, PRICES.insertion(read[to]) + lowest(at, to + 1, edits - 1))
        return found

    return lowest(0, 0, MOST_EDITS)


@given(_plates, st.text(st.sampled_from("浙新AD0MNQ8B?"), max_size=7), st.floats(0.1, 2), st.data())
def test_it_is_that_of_the_textbook_as_far_as_the_bound(
    plate: str, read: str, highest: float, data: st.DataObject
) -> None:
    size = {"min_size": len(read), "max_size": len(read)}
    bands = data.draw(st.lists(st.integers(0, UNSAID), **size))
    plain = plain_price(plate, read, bands)
    found = reading_price(plate, read, PRICES, highest, bands)
    if plate == read:
        assert found is not None
        assert found <= highest
    elif abs(plain - highest) > 1e-9:
        assert found == (pytest.approx(plain) if plain < highest else None)


def test_an_example_is_a_reading_that_the_rule_accepts_the_most_frequent_first() -> None:
    examples = accepted_readings(FuzzyPlate("浙A8D345", 0.6), most=1000)
    assert examples[:2] == ["?A8D345", "浙A80345"]
    for read in examples:
        price = reading_price("浙A8D345", read, PRICES, 0.6, (UNSAID,) * len(read))
        assert price is not None, read
    assert len(accepted_readings(FuzzyPlate("浙A8D345", 1.0))) == 5
    assert accepted_readings(FuzzyPlate("港11111", 0.2)) == []


def test_sources_refuse_a_price_at_which_a_character_may_be_too_few() -> None:
    with pytest.raises(ValueError, match="too few"):
        ReadingSources(PRICES, LEAST_OF_PLACE)
