"""What devices write of further candidates, and what is left out of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.confusion_table import PACKAGED
from bus.domain.misreading_prices import LEAST
from bus.domain.plate_candidates import (
    MOST_CANDIDATES,
    candidates_of,
    candidates_text,
    read_candidates,
)
from bus.domain.plates import is_whole, plate_key


def one(plate: object, weight: object) -> dict[str, object]:
    return {"车牌号码": plate, "权重": weight}


def test_weights_are_to_one_or_to_a_hundred() -> None:
    """By the greatest of them."""
    for written in ([one("浙A8D345", 0.6), one("浙A80345", 0.25)], [one("浙A8D345", 60), one("浙A80345", 25)]):
        assert read_candidates(written).candidates == (("浙A8D345", 0.6), ("浙A80345", 0.25))


@pytest.mark.parametrize(
    "bad",
    [
        "浙A8D345", 7, None, [], {}, {"车牌号码": "浙A8D345"}, one(7, 0.5), one("浙A8?345", 0.5), one("识别异常", 0.5),
        one("浙A8D346", 0), one("浙A8D346", -1), one("浙A8D346", True), one("浙A8D346", "0.5"), one("浙A8D346", float("nan")),
        one("浙A8D346", 101), one("浙A8D346", 10**400),
    ],
)  # fmt: skip
def test_what_is_no_candidate_is_ignored_and_counted(bad: object) -> None:
    """The others count."""
    found = read_candidates([bad, one("浙A8D345", 60)])
    assert found.candidates == (("浙A8D345", 0.6),)
    assert found.ignored == 1


def test_the_first_five_count_each_once() -> None:
    written = [one(f"浙A0000{at}", 50) for at in range(9)]
    assert len(read_candidates(written).candidates) == MOST_CANDIDATES
    assert read_candidates(written).ignored == 4
    twice = read_candidates([one("浙A8D345", 50), one("浙 a8D345", 40)])
    assert (twice.candidates, twice.ignored) == ((("浙A8D345", 0.5),), 1)


def test_anything_but_a_list_has_no_candidates() -> None:
    for written in ("浙A8D345-30", {"车牌号码": "浙A8D345", "权重": 1}, None, 3):
        assert read_candidates(written) == ((), 0)
        assert candidates_text(written) == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["车牌号码", "权重"]), inner),
)


@given(json_values)
def test_whatever_is_written_gives_whole_plates_with_weights_that_are_read_back(written: object) -> None:
    found = read_candidates(written).candidates
    assert len(found) <= MOST_CANDIDATES
    for plate, weight in found:
        assert is_whole(plate)
        assert plate == plate_key(plate)
        assert 0 < weight <= 1
        assert PACKAGED.prices.candidate(weight) >= LEAST
    read_back = candidates_of(candidates_text(written))
    assert [plate for plate, _ in read_back] == [plate for plate, _ in found]
    assert [weight for _, weight in read_back] == pytest.approx([weight for _, weight in found], rel=1e-5)


def test_a_message_is_read_as_it_comes() -> None:
    body = '{"车牌候选": [{"车牌号码": "浙A8D345", "权重": 30}]}'
    assert candidates_text(msgspec.json.decode(body)["车牌候选"]) == "浙A8D345 0.3"
