"""The table of a list: what it finds is what a walk over all lines finds."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alarm.lists import table as table_module
from alarm.lists.table import PlateTable, TableError, build_table, wanted_plate
from alarm.lists.table_layout import HEADER_BYTES
from bus.contracts.plate_lists import TOLERANCES, ListLine, Tolerance
from bus.domain.look_alikes import folded_alike
from tests.bus.domain.plates_one_edit_apart import is_one_edit_apart

SIGNS = "浙粤ABD018O25SMNW"
plates = st.text(alphabet=SIGNS, min_size=1, max_size=8)
texts = st.text(max_size=5)
lines = st.lists(st.builds(ListLine, st.integers(1, 9), plates, texts, texts), max_size=30)


def is_meant(line: ListLine, plate: str, tolerance: Tolerance) -> bool:
    """By the words of the contract, without an index."""
    own = wanted_plate(line)
    if tolerance == "exact":
        return own == plate
    if tolerance == "look-alikes":
        return folded_alike(own) == folded_alike(plate)
    return own == plate or is_one_edit_apart(own, plate)


def first_line(table: PlateTable, plate: str) -> ListLine | None:
    """Of exactly this plate."""
    return next(iter(table.lines_like(plate, "exact")), None)


@settings(max_examples=150, deadline=None)
@given(lines=lines, asked=st.lists(plates, max_size=10))
def test_hits_equal_a_walk_over_all_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[ListLine], asked: list[str]
) -> None:
    path = tmp_path_factory.mktemp("table") / "base.table"
    build_table(lines, path, near=True)
    table = PlateTable.open(path)
    assert len(table) == len(lines)
    assert table.lines(0, len(lines)) == lines
    for plate in {*asked, *(line.plate for line in lines)}:
        for tolerance in TOLERANCES:
            expected = [line for line in lines if is_meant(line, plate, tolerance)]
            assert table.lines_like(plate, tolerance) == expected, (plate, tolerance)


def test_many_lines_are_found_each_and_no_other(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    made = [f"浙{rng.choice('ABC')}{rng.randrange(100_000):05}" for _ in range(50_000)]
    there, others = set(made[::2]), set(made) - set(made[::2])
    path = tmp_path / "base.table"
    build_table((ListLine(at, plate) for at, plate in enumerate(sorted(there))), path)
    table = PlateTable.open(path)
    assert all(first_line(table, plate) == ListLine(at, plate) for at, plate in enumerate(sorted(there)))
    assert not [plate for plate in others if first_line(table, plate)]


def test_a_line_whose_plate_names_no_vehicle_is_kept_and_never_found(tmp_path: Path) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(1, "无牌"), ListLine(2, "浙A?2345"), ListLine(3, "浙 a·12345")], path)
    table = PlateTable.open(path)
    assert [line.number for line in table.lines(0, 9)] == [1, 2, 3]
    assert first_line(table, "") is None
    assert first_line(table, "浙A?2345") is None
    assert first_line(table, "浙A12345") == ListLine(3, "浙 a·12345")


def test_an_empty_list_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "base.table"
    build_table([], path, near=True)
    table = PlateTable.open(path)
    assert [table.lines_like("浙A12345", one) for one in TOLERANCES] == [[], [], []]


@pytest.mark.parametrize("at", [0, 20, HEADER_BYTES, -1])
def test_a_file_of_which_a_byte_is_another_is_not_opened(tmp_path: Path, at: int) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(1, "浙A12345")], path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"base\.table"):
        PlateTable.open(path)


@pytest.mark.parametrize("size", [0, 100, HEADER_BYTES, 700])
def test_half_a_file_is_not_opened(tmp_path: Path, size: int) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(1, "浙A12345", "note" * 50)], path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(TableError):
        PlateTable.open(path)


def test_a_build_that_dies_leaves_no_file(tmp_path: Path) -> None:
    def lines() -> list[ListLine]:
        yield ListLine(1, "浙A12345")  # type: ignore[misc]
        raise KeyboardInterrupt

    path = tmp_path / "base.table"
    with pytest.raises(KeyboardInterrupt):
        build_table(lines(), path)
    assert list(tmp_path.iterdir()) == []


def test_it_pickles_as_its_path_and_opens_the_same_file_again(tmp_path: Path) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(at, f"浙A{at:05}") for at in range(10_000)], path)
    packed = pickle.dumps(PlateTable.open(path))
    assert len(packed) < 500
    assert first_line(pickle.loads(packed), "浙A00042") == ListLine(42, "浙A00042")
    build_table([ListLine(1, "浙A00042")], path)
    with pytest.raises(TableError, match="another table"):
        first_line(pickle.loads(packed), "浙A00042")
    path.unlink()
    with pytest.raises(TableError, match="No such file"):
        first_line(pickle.loads(packed), "浙A00042")


def test_a_table_without_distances_says_so(tmp_path: Path) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(1, "浙A12345")], path)
    with pytest.raises(TableError, match="without distances"):
        PlateTable.open(path).lines_like("浙A12345", "distance 1")


def test_an_open_table_goes_on_when_its_file_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "base.table"
    build_table([ListLine(1, "浙A12345")], path)
    table = table_module.PlateTable.open(path)
    path.unlink()
    assert first_line(table, "浙A12345") == ListLine(1, "浙A12345")
