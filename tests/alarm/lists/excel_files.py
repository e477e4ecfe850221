"""Small workbooks for tests: the parts of an .xlsx that a sheet needs."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_TYPES = """<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>"""
_RELS = """<?xml version="1.0"?><Relationships
 xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
 Target="xl/workbook.xml"/></Relationships>"""
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLES = f"""<?xml version="1.0"?><styleSheet xmlns="{_MAIN}"><fonts count="1"><font/></fonts>
<fills count="1"><fill/></fills><borders count="1"><border/></borders>
<cellStyleXfs count="1"><xf/></cellStyleXfs>
<cellXfs count="2"><xf/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>"""


class Formula(str):
    """`=…` and the value that was saved with it, with a tab between; no value where there is none."""


class SerialDay(int):
    """A day as Excel counts them."""


Cell = str | int | float | Formula | SerialDay | None


def write_workbook(
    path: Path, sheets: Mapping[str, Mapping[str, Cell]], merged: Sequence[str] = ()
) -> None:
    """`sheets`: the cells of each by their names, `B3`; `merged`: ranges of the first sheet."""
    names = list(sheets)
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1)
    )
    related = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(names) + 1)
    )
    related += f'<Relationship Id="rIdS" Type="{_OFFICE}/styles" Target="styles.xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("[Content_Types].xml", _TYPES)
        packed.writestr("_rels/.rels", _RELS)
        packed.writestr("xl/styles.xml", _STYLES)
        packed.writestr("xl/workbook.xml", f'<?xml version="1.0"?><workbook xmlns="{_MAIN}" '
                        f'xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>')  # fmt: skip
        packed.writestr("xl/_rels/workbook.xml.rels", '<?xml version="1.0"?><Relationships xmlns='
                        f'"http://schemas.openxmlformats.org/package/2006/relationships">{related}'
                        "</Relationships>")  # fmt: skip
        for number, name in enumerate(names, 1):
            packed.writestr(f"xl/worksheets/sheet{number}.xml",
                            _sheet(sheets[name], merged if number == 1 else ()))  # fmt: skip


def write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """A workbook of one sheet; a row has at most 26 cells."""
    cells = {f"{chr(65 + at)}{n}": cell for n, row in enumerate(rows, 1) for at, cell in enumerate(row)}
    write_workbook(path, {"faces": cells})


def _sheet(cells: Mapping[str, Cell], merged: Sequence[str]) -> str:
    rows: dict[int, list[str]] = {}
    for name, value in cells.items():
        rows.setdefault(int(name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")), []).append(_cell(name, value))
    data = "".join(f'<row r="{n}">{"".join(found)}</row>' for n, found in sorted(rows.items()))
    joined = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
    tail = f'<mergeCells count="{len(merged)}">{joined}</mergeCells>' if merged else ""
    return f'<?xml version="1.0"?><worksheet xmlns="{_MAIN}"><sheetData>{data}</sheetData>{tail}</worksheet>'


def _cell(name: str, value: Cell) -> str:
    if isinstance(value, Formula):
        text, _, saved = value.partition("\t")
        kept = f"<v>{escape(saved)}</v>" if saved else ""
        return f'<c r="{name}" t="str"><f>{escape(text)}</f>{kept}</c>'
    if isinstance(value, SerialDay):
        return f'<c r="{name}" s="1"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c r="{name}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{name}"/>' if value is None else f'<c r="{name}"><v>{value}</v></c>'
