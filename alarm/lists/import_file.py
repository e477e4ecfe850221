"""What a table brings onto a list: its lines, and each line that is refused, with the reason. Pure.

In: rows of text, one after the other, with their numbers in the file. Out: `ListLine`s and
`RefusedLine`s in their order, as they come. Never: a line that is left out in silence, but for rows
without any text; memory for more than the plates and their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from alarm.lists.columns import SEEN_ROWS, ListColumns, day_of, find_columns
from bus.contracts.plate_lists import ListLine
from bus.domain.list_check import MAX_LINES, MAX_NOTE_CHARACTERS, is_list_plate
from bus.domain.plates import PROVINCES, plate_form, wanted_vehicle

MAX_SHOWN_CHARACTERS = 200


class TableRow(NamedTuple):
    """`number`: the first line of the file that it stands in, from 1. `problem`: why it is none."""

    number: int
    cells: Sequence[str]
    problem: str = ""


class RefusedLine(NamedTuple):
    """`text`: what stood there; `reason`: a key of `REASONS`; `detail`: what belongs to it."""

    number: int
    text: str
    reason: str
    detail: str = ""


class TooManyLines(ValueError):
    """More than all lists together may have."""


REASONS: dict[str, tuple[str, str]] = {
    "no_plate": (
        "no plate stands in its column; of merged cells only the first one has their value",
        "车牌列为空；合并单元格只有第一个单元格有值",
    ),
    "not_a_plate": ("this is no plate", "不是车牌号码"),
    "not_whole": (
        "characters of the plate are missing or masked; make a rule with a pattern of it",
        "车牌有缺失或遮挡字符；请用带通配符的规则布控",
    ),
    "province_length": (
        "a plate of a province is a letter and five or six signs behind its character",
        "省份简称后应为一个字母和五或六位字符",
    ),
    "twice": ("the plate stands already in line", "车牌已在此行出现过"),
    "note_length": (
        f"a note has at most {MAX_NOTE_CHARACTERS} characters; this one has",
        f"备注最多{MAX_NOTE_CHARACTERS}个字符，此处字符数为",
    ),
    "date": ("this is no date; write 2026-01-31", "日期无法识别；请写成2026-01-31"),
    "formula": (
        "a formula stands there; save its values instead", "此处为公式；请另存为数值",
    ),
    "undecodable": (
        "bytes that are no text in the file's encoding", "含有无法按文件编码读取的字节",
    ),
    "no_entry": (
        "no entry stands in its column; write by what the face is known, at most 64 characters",
        "编号列为空或过长；请填写人脸编号，最多64个字符",
    ),
    "entry_twice": ("the entry stands already in line", "编号已在此行出现过"),
    "no_feature": ("no feature stands in its column", "特征列为空"),
    "not_a_feature": (
        "this is no feature of the model: base64 of little-endian 32-bit floats, or numbers, finite"
        " and not all zero, as many as",
        "不是该模型的特征：应为小端32位浮点数的base64或数值，维数为",
    ),
    "other_model": (
        "the feature is of another model than that of the gallery,", "特征模型与人脸库的模型不同：",
    ),
    "quotes": ("a quotation mark is missing or one too many", "引号缺失或多余"),
}  # fmt: skip
"""Reason -> English and Chinese."""
_PATTERN_MARKS = set("?*#_×-")
_REPLACED = "\ufffd"


def read_lines(rows: Iterable[TableRow]) -> Iterator[ListLine | RefusedLine]:
    """Raises `NoPlateColumn` and `TooManyLines`, and what `rows` does."""
    source = iter(rows)
    seen = list(islice(source, SEEN_ROWS))
    columns = find_columns([row.cells for row in seen if not row.problem])
    headed = _above(seen, columns.first)
    first_lines: dict[str, int] = {}
    for row in chain(seen[headed:], source):
        found = _line_of(row, columns, first_lines)
        if found is None:
            continue
        if isinstance(found, ListLine):
            first_lines[found.plate] = found.number
            if len(first_lines) > MAX_LINES:
                raise TooManyLines(f"over {MAX_LINES} plates: make several lists of them")
        yield found


def _above(rows: Sequence[TableRow], readable: int) -> int:
    """How many rows there are up to and with so many readable ones."""
    count = 0
    while readable and count < len(rows):
        readable -= not rows[count].problem
        count += 1
    return count


def _line_of(
    row: TableRow, columns: ListColumns, first_lines: dict[str, int]
) -> ListLine | RefusedLine | None:
    """None of a row without any text."""
    number, cells, problem = row
    if problem:
        return _refused(row, problem)
    width = len(cells)
    written = cells[columns.plate] if columns.plate < width else ""
    plate = wanted_vehicle(written)
    if not plate or not is_list_plate(plate) or _is_formula(written):
        return _refused(row, _fault_of(written, plate)) if any(map(str.strip, cells)) else None
    note = cells[columns.note].strip() if 0 <= columns.note < width else ""
    written_day = cells[columns.date].strip() if 0 <= columns.date < width else ""
    if len(note) > MAX_NOTE_CHARACTERS:
        return _refused(row, "note_length", str(len(note)))
    if _REPLACED in note or "\0" in note:
        return _refused(row, "undecodable")
    day = day_of(written_day) if written_day else ""
    if day is None:
        return _refused(row, "date")
    if (first := first_lines.get(plate)) is not None:
        return _refused(row, "twice", str(first))
    return ListLine(number, plate, note, day)


def _fault_of(written: str, plate: str) -> str:
    if not written.strip():
        return "no_plate"
    if _is_formula(written):
        return "formula"
    if _REPLACED in written:
        return "undecodable"
    if plate:
        return "province_length" if plate[0] in PROVINCES else "not_a_plate"
    return "not_whole" if _PATTERN_MARKS & set(written) and plate_form(written) else "not_a_plate"


def _is_formula(written: str) -> bool:
    """Programs write a text as `="京A12345"` so that it stays one; that is its value."""
    return written[:1] == "=" and written[:2] != '="'


def _refused(row: TableRow, reason: str, detail: str = "") -> RefusedLine:
    text = " | ".join(row.cells)
    return RefusedLine(row.number, text[:MAX_SHOWN_CHARACTERS], reason, detail)
