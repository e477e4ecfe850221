"""Files of plates as people have them: every line is taken, or refused with its reason."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alarm.lists import excel_rows as excel
from alarm.lists.columns import ListColumns, NoPlateColumn, day_of, find_columns
from alarm.lists.csv_text import csv_rows, encoding_of
from alarm.lists.import_file import REASONS, RefusedLine, TableRow, TooManyLines, read_lines
from alarm.lists.list_file import ListFileError, table_rows
from alarm.lists.refused_report import RefusedReport, as_text
from bus.contracts.plate_lists import ListLine
from bus.domain.list_check import is_list_plate
from bus.domain.plates import wanted_vehicle
from tests.alarm.lists.excel_files import Cell, Formula, SerialDay, write_workbook

HEAD = "号牌号码,备注,日期\n"
LINE = ListLine(2, "浙A12345", "被盗", "2026-01-02")


def read(data: bytes) -> list[ListLine | RefusedLine]:
    return list(read_lines(csv_rows(io.BytesIO(data))))


def taken(found: list[ListLine | RefusedLine]) -> list[str]:
    return [one.plate for one in found if isinstance(one, ListLine)]


def refused(found: list[ListLine | RefusedLine]) -> list[tuple[int, str]]:
    return [(one.number, one.reason) for one in found if isinstance(one, RefusedLine)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "gbk", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "，"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encoding_separator_and_line_ends_are_recognised(encoding: str, separator: str, end: str) -> None:
    text = (HEAD + "浙A12345,被盗,2026年1月2日\n").replace(",", separator).replace("\n", end)
    assert read(text.encode(encoding)) == [LINE]


def test_one_broken_byte_makes_no_utf8_file_chinese() -> None:
    data = (HEAD + "浙A12345,被盗,\n浙A12346,被抢,\n").encode() + b"\xe6\xb5A12347,\xff,\n"
    found = read(data)
    assert (taken(found), refused(found)) == (["浙A12345", "浙A12346"], [(4, "undecodable")])
    assert encoding_of(io.BytesIO("浙A\n沪B\n".encode("gb18030") + b"\xff\n")) == "gb18030"


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([["序号", "车牌号码", "备注", "登记日期"]], ListColumns(1, 2, 3, 1)),
        ([["被盗车辆名单", "", ""], ["制表:", "2026-01-01", ""], ["License Plate", "Remarks", "Since"]],
         ListColumns(0, 1, 2, 3)),
        ([["1", "浙A12345", "2026/1/2", "x"], ["2", "沪B12345", "2026/1/3", "y"]], ListColumns(1, 3, 2, 0)),
        ([["牌", "x"], ["浙A12345", "被盗"], ["浙A12346", "被盗"]], ListColumns(0, 1, -1, 1)),
        ([["浙A12345"], ["张三"]], ListColumns(0, -1, -1, 0)),
    ],
)  # fmt: skip
def test_columns_are_known_by_their_headings_or_by_what_stands_in_them(
    rows: list[list[str]], columns: ListColumns
) -> None:
    assert find_columns(rows) == columns


@pytest.mark.parametrize("rows", [[], [["姓名", "电话"], ["张三", "13812345678"]], [["a"], ["b"], ["浙A12345"]]])
def test_a_table_without_plates_says_what_it_has(rows: list[list[str]]) -> None:
    with pytest.raises(NoPlateColumn, match="give the one that does the heading 车牌 or plate"):
        find_columns(rows)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (",x,", "no_plate"), ("张三,,", "not_a_plate"), ("13812345678,,", "not_a_plate"),
        ("浙A1234,,", "province_length"), ("浙A1234567,,", "province_length"), ("浙012345,,", "province_length"),
        ("浙A1?345,,", "not_whole"), ("浙A12*,,", "not_whole"), ("LSVAA4182E2123456,,", "not_a_plate"),
        ("=A1&B12345,,", "formula"), ("=CONCAT(A1),,", "formula"), ("浙A12345,被盗,", "twice"),
        ("浙 a·12345,again,", "twice"), (f"沪B12345,{'x' * 201},", "note_length"),
        ("沪B12345,,soon", "date"), ("沪B12345,,2026-02-30", "date"), ("沪B12345,a\0b,", "undecodable"),
        ('沪B12345,"open,', "quotes"),
    ],
)  # fmt: skip
def test_a_line_that_is_refused_has_its_reason_and_the_others_are_taken(cell: str, reason: str) -> None:
    text = f"{HEAD}浙A12345,被盗,2026-01-02\n{cell}\n\n , ,\n京A88888,,\n"
    found = read(text.encode())
    assert (taken(found), refused(found)) == (["浙A12345", "京A88888"], [(3, reason)])


@pytest.mark.parametrize(
    ("written", "plate"),
    [
        ("浙a12345", "浙A12345"), ("浙A·12345", "浙A12345"), ("浙A-12345", "浙A12345"), ("浙AD12345", "浙AD12345"),
        ('"=""浙A12345"""', "浙A12345"), ("粤Z1234港", "粤Z1234港"), ("京A1234警", "京A1234警"),
        ("WJ京12345", "WJ京12345"), ("使123456", "使123456"), ("Ａ１２３４５Ｂ", "A12345B"),
    ],
)  # fmt: skip
def test_plates_are_taken_as_people_write_them(written: str, plate: str) -> None:
    assert taken(read(f"plate\n浙Q99999\n{written}\n".encode())) == ["浙Q99999", plate]


def test_a_note_may_have_several_lines_and_an_open_quote_takes_no_others_with_it() -> None:
    several = 'plate,note\n浙A12345,"two\nlines"\n浙A12346,"never closed\n' + "".join(
        f"浙B{number:05d},x\n" for number in range(100)
    )
    found = read(several.encode())
    assert found[0] == ListLine(2, "浙A12345", "two\nlines")
    assert refused(found) == [(4, "quotes")]
    assert [one.number for one in found[2:]] == list(range(5, 105))


def test_more_lines_than_all_lists_may_have_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alarm.lists.import_file.MAX_LINES", 2)
    rows = [TableRow(n, [f"浙A{n:05d}"]) for n in range(1, 4)]
    with pytest.raises(TooManyLines, match="over 2 plates"):
        list(read_lines(rows))


def test_a_line_without_an_end_is_read_in_pieces() -> None:
    """A file of one line that is larger than memory has no line that can be taken."""
    found = read(b"plate\n" + b"A" * 300_000 + b"\n" + "浙A12345\n".encode())
    assert taken(found) == ["浙A12345"]
    assert {reason for _, reason in refused(found)} == {"not_a_plate"}


_cells = st.text(st.sampled_from("浙沪A1?*-,;\t\"'\n\r =，\0\ufeff字x/年2026"), max_size=12)


@given(st.lists(st.lists(_cells, max_size=4), max_size=12), st.sampled_from(["utf-8", "gb18030", "utf-16"]))
@example([["plate"], ["浙A12345"]], "utf-8")
def test_any_table_is_read_and_what_is_taken_is_a_plate_once(rows: list[list[str]], encoding: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["plate", "note", "date"], *rows])
    found = read(text.getvalue().encode(encoding, "replace"))
    plates = taken(found)
    assert len(plates) == len(set(plates))
    for one in found:
        if isinstance(one, ListLine):
            assert wanted_vehicle(one.plate) == one.plate
            assert is_list_plate(one.plate)
            assert one.date == "" or day_of(one.date) == one.date
        else:
            assert one.reason in REASONS
    numbers = [one.number for one in found]
    assert numbers == sorted(numbers)
    whole = {wanted_vehicle(row[0]) for row in rows if row and not row[0].startswith("=")}
    assert set(plates) <= {wanted_vehicle(row[0]) for row in rows if row}
    assert len([one for one in found if isinstance(one, RefusedLine)]) + len(plates) >= len(
        {one for one in whole if one and is_list_plate(one)}
    )


@given(st.binary(max_size=300))
def test_any_bytes_are_lines_or_refusals(data: bytes) -> None:
    try:
        found = read(data)
    except NoPlateColumn:
        return
    assert all(isinstance(one, ListLine) or one.reason in REASONS for one in found)


def test_the_report_says_what_stood_where_and_why_and_computes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    with RefusedReport(path) as report:
        report.add(RefusedLine(7, "=HYPERLINK(1)", "formula"))
        report.add(RefusedLine(9, "浙A1 | x", "twice", "4"))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[1][:2] == ["7", "'=HYPERLINK(1)"]
    assert rows[2] == ["9", "浙A1 | x", "the plate stands already in line 4", "车牌已在此行出现过 4"]
    assert as_text("浙A") == "浙A"
    with RefusedReport(tmp_path / "none.csv"):
        pass
    assert not (tmp_path / "none.csv").exists()


CELLS: dict[str, Cell] = {
    "A1": "被盗车辆名单", "A3": "车牌", "B3": "备注", "C3": "日期",
    "A4": "浙A12345", "B4": "被盗", "C4": SerialDay(46024),
    "A5": Formula('="浙A"&"12346"\t浙A12346'), "B5": Formula("=A1"), "C5": "2026-01-02",
    "A6": 12345, "A7": "浙A12347", "A8": None, "B8": "merged with the one above", "A9": Formula("=VLOOKUP(1)"),
    "B9": "not saved",
}  # fmt: skip


def test_a_sheet_gives_its_saved_values_and_its_own_row_numbers(tmp_path: Path) -> None:
    """Of merged cells the first has the value; a formula without a saved value has none."""
    path = tmp_path / "list.bin"
    write_workbook(path, {"empty": {}, "list": CELLS}, merged=())
    found = list(read_lines(table_rows(path)))
    assert [one for one in found if isinstance(one, ListLine)] == [
        ListLine(4, "浙A12345", "被盗", "2026-01-02"), ListLine(5, "浙A12346", "", "2026-01-02"),
        ListLine(7, "浙A12347"),
    ]  # fmt: skip
    assert refused(found) == [(6, "not_a_plate"), (8, "no_plate"), (9, "no_plate")]


@pytest.mark.parametrize("corner", ["XFD1048576", "GT1048576"])
def test_a_sheet_that_asks_for_the_memory_of_a_machine_is_refused(
    tmp_path: Path, corner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes with a cell in the last corner: a rectangle of 17 thousand million cells."""
    path = tmp_path / "list.xlsx"
    write_workbook(path, {"list": {"A1": "plate", "A2": "浙A12345", corner: "x"}})
    with pytest.raises(excel.ExcelUnreadable, match=r"columns; save|more memory or time|cannot be read"):
        list(read_lines(table_rows(path)))


def test_a_damaged_or_too_large_workbook_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "list.xlsx"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(excel.ExcelUnreadable, match="cannot be read as a sheet"):
        list(read_lines(table_rows(path)))
    monkeypatch.setattr("alarm.lists.list_file.MAX_EXCEL_BYTES", 50)
    with pytest.raises(ListFileError, match="make several lists of it"):
        list(read_lines(table_rows(path)))
    with pytest.raises(ListFileError, match="No such file"):
        list(table_rows(tmp_path / "none.csv"))
