"""A site's own table of misreadings: what judged alarms change of the packaged one, and what not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.domain.confusion_fit import MOST_OF_ONE, PRIOR_LETTERS, JudgedReading, fitted
from bus.domain.misreading_prices import LEAST_OF_PLACE, UNSAID, MisreadingPrices, prices_of
from bus.domain.plate_confusion import ConfusionCounts
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from ingest.senders.simulator.plate_misreader import PlateMisreader


def price(counts: ConfusionCounts, true: str, read: str) -> float:
    return prices_of(counts).substitution(true, read, UNSAID)


def plates(count: int) -> list[str]:
    return [f"浙A{number:04}D" for number in range(count)]


def misread(count: int, is_confirmed: bool = True) -> list[JudgedReading]:
    """D read as 0, each on another plate."""
    return [JudgedReading(one, f"{one[:-1]}0", is_confirmed) for one in plates(count)]


def test_without_a_judged_alarm_the_packaged_table_stays() -> None:
    found = fitted([], FIT)
    assert (found.counts, found.letters) == (FIT, 0)


def test_what_was_confirmed_costs_less_and_what_was_false_costs_more() -> None:
    """By and by: with ever more alarms."""
    before = price(FIT, "D", "0")
    cheaper = [price(fitted(misread(count), FIT).counts, "D", "0") for count in (20, 100, 300)]
    dearer = [price(fitted(misread(count, False), FIT).counts, "D", "0") for count in (20, 100, 300)]
    assert before > cheaper[0] > cheaper[1] > cheaper[2]
    assert before < dearer[0] < dearer[1] < dearer[2]


def lengthened(count: int, is_confirmed: bool = True) -> list[JudgedReading]:
    """A 7 put in behind the province, each on another plate."""
    return [JudgedReading(one, f"{one[0]}7{one[1:]}", is_confirmed) for one in plates(count)]


def shortened(count: int, is_confirmed: bool = True) -> list[JudgedReading]:
    """The A left out."""
    return [JudgedReading(one, f"{one[0]}{one[2:]}", is_confirmed) for one in plates(count)]


def test_a_character_that_was_put_in_costs_less_where_it_was_confirmed_and_more_where_it_was_false() -> None:
    """Down to the least that a character too many costs; what nobody was asked about stays."""
    assert FIT.inserted.get("7", 0) == 0
    cheaper = [prices_of(fitted(lengthened(count), FIT).counts).insertion("7") for count in (1, 10, 50, 400)]
    assert cheaper[0] == pytest.approx(1, abs=0.03), "few letters change little"
    assert cheaper[0] > cheaper[1] > cheaper[2] > cheaper[3] == LEAST_OF_PLACE
    found = fitted(lengthened(50), FIT)
    assert (found.inserted, found.omitted, found.letters) == ({"7": 50}, {}, 350)
    rows = {true: row for true, row in found.counts.rows.items() if true not in "浙A0123456789D"}
    assert rows == {true: FIT.rows[true] for true in rows}
    assert {read: count for read, count in found.counts.inserted.items() if read != "7"} == dict(FIT.inserted)

    packaged = ConfusionCounts(1, 0, 0, FIT.rows, {**FIT.inserted, "7": 200}, FIT.right, FIT.wrong)
    dearer = [prices_of(fitted(lengthened(count, False), packaged).counts).insertion("7") for count in (0, 100, 900)]
    assert dearer[0] < dearer[1] < dearer[2]
    assert fitted(lengthened(9, False), packaged).inserted == {}


def test_as_many_letters_as_the_prior_put_in_half_as_often_as_the_site_does() -> None:
    """Nothing stands once beside each letter of the plates of confirmed alarms, and of the false ones with
    something put in."""
    readings = lengthened(200) + [JudgedReading(one, one, True) for one in plates(1_700)[200:]]
    prior = PRIOR_LETTERS * len(FIT.rows)
    for more, letters in (([], 7 * 1_700), (lengthened(300, False), 7 * 2_000), (misread(300, False), 7 * 1_700)):
        found = fitted([*readings, *more], FIT)
        share = 200 / (letters + 200 + prior)
        assert found.counts.inserted["7"] / FIT.letters == pytest.approx(share, rel=0.02)


def test_a_character_that_was_left_out_costs_less_where_it_was_confirmed_and_more_where_it_was_false() -> None:
    packaged = ConfusionCounts(1, 0, 0, {**FIT.rows, "A": {"A": 1_000, "-": 3}}, FIT.inserted, FIT.right, FIT.wrong)
    before = prices_of(packaged).deletion("A")
    cheaper = [prices_of(fitted(shortened(count), packaged).counts).deletion("A") for count in (5, 50)]
    dearer = prices_of(fitted(shortened(300, False), packaged).counts).deletion("A")
    assert dearer > before > cheaper[0] >= cheaper[1] >= LEAST_OF_PLACE
    assert fitted(shortened(50), packaged).omitted == {"A": 50}


def test_few_letters_change_little_and_as_many_as_the_prior_go_half_the_way() -> None:
    share = FIT.rows["D"]["0"] / sum(FIT.rows["D"].values())
    for count in (1, PRIOR_LETTERS, 10 * PRIOR_LETTERS):
        found = fitted(misread(count), FIT)
        row = found.counts.rows["D"]
        assert found.by_character["D"] == count
        expected = (count + PRIOR_LETTERS * share) / (count + PRIOR_LETTERS)
        assert row["0"] / sum(row.values()) == pytest.approx(expected, rel=0.06)
    assert price(fitted(misread(1), FIT).counts, "D", "0") == pytest.approx(price(FIT, "D", "0"), abs=0.02)


def test_it_says_how_many_letters_it_rests_on() -> None:
    """Of a confirmed alarm all of its plate, of a false one those that differ."""
    one = JudgedReading("浙A8D345", "浙A80345", True)
    assert fitted([one], FIT)[1:5] == (1, 0, 7, 0)
    assert fitted([one._replace(is_confirmed=False)], FIT)[1:5] == (0, 1, 1, 0)


@pytest.mark.parametrize(
    "reading",
    [
        JudgedReading("浙A8D345", "苏C99917", True), JudgedReading("浙A8D345", "浙A8D345", False),
        JudgedReading("浙A8D345", "浙", True), JudgedReading("浙A8D345", "苏C99917", False),
    ],
)  # fmt: skip
def test_what_says_nothing_of_single_characters_is_left_out(reading: JudgedReading) -> None:
    found = fitted([reading], FIT)
    assert (found.counts, found.letters, found.left_out) == (FIT, 0, 1)


def test_one_dirty_plate_is_no_habit_of_the_cameras() -> None:
    found = fitted([JudgedReading("浙A8D345", "浙A80345", True)] * 1_000, FIT)
    assert (found.confirmed, found.left_out) == (MOST_OF_ONE, 1_000 - MOST_OF_ONE)
    assert found.by_character["D"] == MOST_OF_ONE


def test_a_pair_that_no_alarm_was_about_keeps_its_share() -> None:
    """An alarm shows only what rules accept: that a pair is missing there says nothing."""
    exact = [JudgedReading(one, one, True) for one in plates(500)]
    assert fitted(exact, FIT).counts.rows == FIT.rows
    others = fitted(misread(500), FIT).counts.rows["D"]
    assert {read: count for read, count in others.items() if read not in "D0"} == {
        read: count for read, count in FIT.rows["D"].items() if read not in "D0"
    }


def test_a_plate_that_was_read_in_part_and_one_of_another_kind_count_by_what_is_known() -> None:
    found = fitted([JudgedReading("浙A8D345", "浙A8?345", True), JudgedReading("港AB1234", "港AB1234", True)], FIT)
    assert found.confirmed == 2
    assert "港" not in found.counts.rows
    assert found.by_character["D"] == 1


def test_a_site_that_misreads_as_the_held_out_half_comes_near_to_it() -> None:
    """Many alarms of many plates: its pairs are dearer or cheaper as the other half has them."""
    counts = ConfusionCounts(1, 0, 0, {**HELD_OUT.rows, "D": {"D": 60, "B": 40}}, {}, HELD_OUT.right, HELD_OUT.wrong)
    misreader = PlateMisreader(random.Random(4), counts)
    read = [JudgedReading(one, misreader.read(one).text, True) for one in plates(1_000)]
    row = fitted(read, FIT).counts.rows["D"]
    assert row["B"] / sum(row.values()) == pytest.approx(0.4, abs=0.15)
    assert FIT.rows["D"].get("B", 0) == 0


characters = st.sampled_from(sorted(FIT.rows))
readings = st.builds(
    JudgedReading, st.text(characters, min_size=6, max_size=8), st.text(characters | st.just("?"), min_size=5, max_size=9),
    st.booleans(),
)


@settings(max_examples=25)
@given(st.lists(readings, max_size=15))
def test_whatever_was_judged_gives_prices_and_as_many_letters_as_before(judged: list[JudgedReading]) -> None:
    """So that how frequent a character is on plates stays what was drawn."""
    found = fitted(judged + [JudgedReading(one.plate, one.plate, True) for one in judged], FIT)
    prices: MisreadingPrices = prices_of(found.counts)
    for true, row in found.counts.rows.items():
        total = sum(FIT.rows[true].values())
        assert sum(row.values()) == pytest.approx(total, abs=len(row) + 1)
        assert row[true] > 0
        assert all(one > 0 for read, one in prices.taken_for[UNSAID][true].items())
