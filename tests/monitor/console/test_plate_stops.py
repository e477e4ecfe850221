"""The way of any plate: its stops in the order of capture, what is not certain of them, and the rule for it."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.commands import WatchCommand
from bus.domain.plates import is_whole, plate_form
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_values import PLATE
from bus.runtime.wall_clock import now_ms
from ingest.store.port import RecordRow
from monitor.console.address import FIELDS, format_address, read_address
from monitor.console.plate_links import reading_text, rule_fault, rule_fault_text
from monitor.console.plate_stops import stops_of
from monitor.i18n import texts

PLATES = ("浙A12345", "浙A?2345", "浙A1234*", "浙A-12345")


def seen(number: int, at_ms: int, place: str, plate: str = "浙A12345", received_ms: int = 0) -> RecordRow:
    return RecordRow(
        record_id=f"r-{number}", kind="vehicle", checkpoint_id=place, district_id="", camera_ip="",
        recognizer_ip="", captured_at_ms=at_ms, received_at_ms=received_ms or at_ms + 80, plate_number=plate,
        clock_off_ms=5_000 if received_ms else 0,
    )  # fmt: skip


sightings = st.lists(
    st.tuples(st.integers(1, 50), st.sampled_from(["a", "b", "", "c"]), st.sampled_from(PLATES)), max_size=40
).map(lambda drawn: [seen(n, *one) for n, one in enumerate(drawn)])


@given(sightings, st.randoms(use_true_random=False))
def test_every_record_is_in_one_stop_in_the_order_of_capture(
    rows: list[RecordRow], dice: random.Random
) -> None:
    """However the store hands them out; neighbours at one place are one stop."""
    stops = stops_of(rows)
    ordered = sorted(rows, key=lambda row: (row.captured_at_ms, row.record_id))
    assert [i for stop in stops for i in stop.record_ids] == [row.record_id for row in ordered]
    assert [stop.number for stop in stops] == list(range(1, len(stops) + 1))
    places = [stop.checkpoint_id for stop in stops]
    assert all(one != following for one, following in pairwise(places))
    assert stops_of(dice.sample(rows, len(rows))) == stops


@given(sightings)
def test_a_stop_says_what_was_read_only_in_part(rows: list[RecordRow]) -> None:
    """A masked plate may be another vehicle; none of them is passed over in silence."""
    uncertain = {
        row.record_id: plate_form(row.plate_number)
        for row in rows
        if not is_whole(plate_form(row.plate_number))
    }
    for stop in stops_of(rows):
        assert set(stop.forms) == {uncertain[i] for i in stop.record_ids if i in uncertain}


def test_a_stop_says_when_only_its_arrival_is_known() -> None:
    """Where a clock was off and nothing better is known, the order is that of arrival."""
    on_time, by_arrival = seen(1, 10, "a"), seen(2, 20, "b", received_ms=20)
    assert [stop.is_by_arrival for stop in stops_of([on_time, by_arrival])] == [False, True]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(
    ("written", "is_certain", "can_be_watched"),
    [("浙A12345", True, True), ("浙A?2345", False, True), ("浙?????5", False, False), ("浙A1-2345", False, True), ("KA-51-AB-12", True, True)],
)
def test_a_plate_says_how_it_was_read_and_whether_a_rule_may_ask_for_it(
    language: str, written: str, is_certain: bool, can_be_watched: bool
) -> None:
    """In words of the page; a rule is refused for the same reason when it is put."""
    t, form = texts(language), plate_form(written)
    assert (reading_text(form, t) == "") == is_certain
    fault = rule_fault(form, "vehicle")
    assert (fault is None) == can_be_watched
    if fault is not None:
        assert rule_fault_text(fault, t).endswith(t("watch.fault_pattern"))


@given(st.one_of(st.sampled_from(PLATES), st.text(max_size=20)))
def test_the_offer_says_what_the_check_of_rules_says(written: str) -> None:
    """One check: what a record offers is taken when the button is pressed, and the other way round."""
    form = plate_form(written)
    if not form:
        return
    rule = WatchCommand(rule_id="w", op="put", version=1, name=form, match={PLATE: [form]})
    offered = rule_fault(form, "vehicle")
    if offered is None:
        check_rule(rule, now_ms())
    else:
        with pytest.raises(RuleError, match=re.escape(str(offered))):
            check_rule(rule, now_ms())


@given(st.sampled_from(PLATES), st.sampled_from(["map", "watch"]))
def test_the_link_from_a_record_is_read_as_it_was_meant(written: str, page: str) -> None:
    """Marks of unread characters survive the address."""
    form = plate_form(written)
    address = format_address(f"/{page}", FIELDS[page], {"plate": form})
    found = read_address(FIELDS[page], address.partition("?")[2])
    assert (found.value("plate"), found.wrong) == (form, frozenset())
