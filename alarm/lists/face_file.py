"""What a file of features brings into a gallery: its faces, and each line that is refused, with the
reason.

In: rows of a table, the model of the features. Out: `FaceLine`s and `RefusedLine`s, as they come.
Never: a line that is left out in silence, but for rows without any text; a guess which column is
which: features have headings.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from alarm.lists.columns import HEADED_ROWS, day_of, heading_form
from alarm.lists.import_file import MAX_SHOWN_CHARACTERS, RefusedLine, TableRow, TooManyLines
from alarm.lists.list_file import ListFileError
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import FaceLine
from bus.domain.feature_models import feature_of, is_feature
from bus.domain.list_check import MAX_FACES, MAX_NOTE_CHARACTERS, is_entry
from bus.domain.rule_values import normal

MAX_FACE_CSV_BYTES = 2 << 30
"""100,000 features of 1,024 numbers as text."""
_HEADINGS = {
    "entry": {
        "编号", "人员编号", "人脸编号", "证件号", "身份证号", "entry", "id", "personid",
    },
    "note": {"备注", "说明", "姓名", "名称", "note", "notes", "remark", "remarks", "name"},
    "date": {"日期", "登记日期", "布控日期", "date", "day", "since"},
    "feature": {"特征", "人脸特征", "特征值", "feature", "features", "embedding", "vector"},
    "model": {"特征模型", "模型", "model", "featuremodel"},
}  # fmt: skip


class FaceColumns(NamedTuple):
    """Where what stands in a row, from 0; -1: nowhere."""

    entry: int
    note: int
    date: int
    feature: int
    model: int


def named_model(rows: Sequence[TableRow]) -> str | None:
    """The model that the first rows of a file name, empty where they name none; None where they
    have no headings of a gallery."""
    for at, row in enumerate(rows, 1):
        if columns := _columns_in(row):
            return next(filter(None, (_cell(one.cells, columns.model) for one in rows[at:])), "")
    return None


def read_faces(
    rows: Iterable[TableRow], model: FeatureModel
) -> Iterator[FaceLine | RefusedLine]:
    """Of rows with a heading. Raises `ListFileError`, `TooManyLines`, and what `rows` does."""
    source = iter(rows)
    columns = _columns_of(islice(source, HEADED_ROWS))
    first_lines: dict[str, int] = {}
    for row in source:
        if not any(map(str.strip, row.cells)):
            continue
        found = _face_of(row, columns, model, first_lines)
        if isinstance(found, FaceLine):
            first_lines[found.entry] = found.number
            if len(first_lines) > MAX_FACES:
                raise TooManyLines(f"over {MAX_FACES} faces: all galleries together have no more")
        yield found


def _columns_of(rows: Iterable[TableRow]) -> FaceColumns:
    """Of the heading, which is taken off. Raises `ListFileError`."""
    for row in rows:
        if columns := _columns_in(row):
            return columns
    raise ListFileError(
        "no line of headings is found: write entry (编号), feature (特征), and, if there are, note"
        " (备注) and date (日期) above the columns"
    )


def _columns_in(row: TableRow) -> FaceColumns | None:
    forms = [heading_form(cell) for cell in row.cells]
    columns = FaceColumns(*(
        next((at for at, form in enumerate(forms) if form in _HEADINGS[name]), -1)
        for name in FaceColumns._fields
    ))  # fmt: skip
    return columns if columns.entry >= 0 and columns.feature >= 0 else None


def _face_of(
    row: TableRow, columns: FaceColumns, model: FeatureModel, first_lines: dict[str, int]
) -> FaceLine | RefusedLine:
    if row.problem:
        return _refused(row, row.problem)
    entry, note, written_day, written, model_name = (_cell(row.cells, at) for at in columns)
    if not is_entry(entry):
        return _refused(row, "no_entry")
    if len(note) > MAX_NOTE_CHARACTERS:
        return _refused(row, "note_length", str(len(note)))
    day = day_of(written_day) if written_day else ""
    if day is None:
        return _refused(row, "date")
    if (first := first_lines.get(entry)) is not None:
        return _refused(row, "entry_twice", str(first))
    if not written:
        return _refused(row, "no_feature")
    if model_name and normal(model_name) != normal(model.name):
        return _refused(row, "other_model", model.name)
    feature = feature_of(written, model) or _of_numbers(written, model)
    if feature is None:
        return _refused(row, "not_a_feature", str(model.dimensions))
    return FaceLine(row.number, entry, note, day, feature)


def _of_numbers(written: str, model: FeatureModel) -> bytes | None:
    """As programs print an array: numbers with spaces or commas between, in square brackets or in
    none."""
    try:
        words = written.strip("[]").replace(",", " ").split()
        numbers = json.loads(f"[{','.join(words)}]") if len(words) == model.dimensions else None
        found = struct.pack(f"<{model.dimensions}f", *numbers) if numbers else b""
    except (ValueError, TypeError, struct.error, OverflowError, RecursionError):
        return None
    return found if is_feature(found, model) else None


def _cell(cells: Sequence[str], at: int) -> str:
    return cells[at].strip() if 0 <= at < len(cells) else ""


def _refused(row: TableRow, reason: str, detail: str = "") -> RefusedLine:
    text = " | ".join(cell[:MAX_SHOWN_CHARACTERS] for cell in row.cells)
    return RefusedLine(row.number, text[:MAX_SHOWN_CHARACTERS], reason, detail)
