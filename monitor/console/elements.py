"""Small building blocks of the pages: panels, grids, charts, facts, pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from nicegui import ui

from bus.domain.kinds import KINDS
from monitor.console.address import FIELDS, format_address
from monitor.console.rows import Row, grid_options
from monitor.i18n import Texts

SOFT = "#8b98ad"  # readable on both grounds: charts do not follow the theme by themselves
LINES = "rgba(128,150,180,.22)"
_KIND_COLOURS = ("#4aa8ff", "#f0a030", "#b07cff", "#3ccf91", "#ff8a5c", "#e05c9c", "#c9c14a")
COLOURS = dict(zip(KINDS, cycle(_KIND_COLOURS), strict=False)) | {
    "p50": "#3ccf91",
    "p95": "#4aa8ff",
    "p99": "#ff8a5c",
    "sent": "#8b98ad",
    "valid": "#3ccf91",
    "accepted": "#4aa8ff",
    "arrived": "#b07cff",
    "rejected": "#ff5d5d",
    "stored": "#c9c14a",
    "duplicates": "#f0a030",
    "missing": "#e05c9c",
    "under_replicated": "#ffb02e",
    "offline": "#ff5d5d",
    "bytes_in": "#4aa8ff",
    "bytes_out": "#3ccf91",
    "rpo": "#ff8a5c",
    "records": "#4aa8ff",
}


@contextmanager
def panel(title: str = "", classes: str = "") -> Iterator[ui.element]:
    """A bordered area with its heading; yields the bar beside the heading for controls."""
    with ui.element("section").classes(f"panel {classes}"):
        bar = ui.element("div").classes("bar")
        if title:
            with bar, ui.element("h2"):
                ui.label(title)
        yield bar


def grid(
    t: Texts, columns: list[Row], *, label: str, height: str = "", **options: object
) -> ui.aggrid:
    """A dense grid; without a height it fills its block. `theme.css` has its least height."""
    made = ui.aggrid(grid_options(t, columns, **options), theme="balham", auto_size_columns=False)
    if height:
        made.style(f"--grid-height: {height}")
    made.props(f'role=region aria-label="{label}"')
    return made


def paged_grid(
    t: Texts,
    columns: list[Row],
    *,
    label: str,
    id_field: str,
    height: str = "",
    **options: object,
) -> ui.aggrid:
    """A grid whose rows the browser asks from the API, block by block."""
    return grid(
        t,
        columns,
        label=label,
        height=height,
        **{
            "rowModelType": "infinite",
            "cacheBlockSize": 100,
            "maxBlocksInCache": 30,
            "maxConcurrentDatasourceRequests": 1,  # a block begins where the one before it ended
            "blockLoadDebounceMillis": 120,
            ":getRowId": f"p => String(p.data[{json.dumps(id_field)}])",
            **options,
        },
    ).classes("pick")


def source(address: str, parameters: Mapping[str, str]) -> str:
    """The code of a data source; both parts travel as JSON."""
    return f"databus.source({json.dumps(address)}, {json.dumps(dict(parameters))})"


def load_rows(made: ui.aggrid, address: str, parameters: Mapping[str, str]) -> None:
    """Reload a paged grid."""
    ui.run_javascript(
        f"databus.ask({made.id}, {json.dumps(address)}, {json.dumps(dict(parameters))})"
    )


def refresh_rows(made: ui.aggrid) -> None:
    """Ask the loaded blocks of a paged grid again; it keeps its scroll."""
    ui.run_javascript(f"databus.refresh({made.id})")


def update_rows(made: ui.aggrid, rows: Sequence[Row]) -> None:
    """These rows in the place of the former ones; the grid keeps those that stay."""
    ui.run_javascript(f"databus.update({made.id}, {json.dumps(rows, ensure_ascii=False)})")


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Name and value, one per line; empty values are left out."""
    with ui.element("dl").classes("facts"):
        for name, value in pairs:
            if value not in ("", None, {}, []):
                with ui.element("dt"):
                    ui.label(name)
                with ui.element("dd"):
                    ui.label(str(value))


def chip(text: str, kind: str) -> ui.label:
    """A stripe and a word."""
    return ui.label(text).classes(f"chip {kind}")


def named_dialog(name: str) -> ui.dialog:
    """A dialog that a screen reader announces by this name; its heading says the same."""
    made = ui.dialog()
    made.props["aria-label"] = name
    return made


def link(text: str, page: str, **values: str) -> None:
    """The way to another page of the console with these values in its address."""
    target = format_address(f"/{page}", FIELDS[page], values)
    ui.link(text, target).classes("header-button")


def figure(t: Texts, address: str, caption: str) -> None:
    """A picture of our own store; `pictures.js` enlarges it on a click or a key."""
    description = caption or t("viewer.picture")
    with ui.element("figure"):
        with ui.element("button").classes("enlarge").props("type=button") as button:
            button.props["aria-label"] = t("viewer.enlarge", caption=description)
            ui.element("img").props(f'src="{address}" loading=lazy').props["alt"] = description
        with ui.element("figcaption"):
            ui.label(description)


def line_chart(
    *, zone: str, names: Mapping[str, str], data: Mapping[str, list[list[Any]]], label: str,
    unit: str = "", durations: bool = False, zoom: bool = False, stacked: bool = False,
    fine: bool = False, steps: bool = False,
    height: str = "240px",
) -> ui.echart:  # fmt: skip
    """Curves over time on the site's clock; `names` gives series key and name.

    `durations`: values are milliseconds, at least 1, on a logarithmic axis.
    """
    axis: Row = {
        "type": "value", "name": unit, "nameTextStyle": {"color": SOFT}, "min": 0,
        "axisLabel": {"color": SOFT}, "splitLine": {"lineStyle": {"color": LINES}},
    }  # fmt: skip
    tooltip: Row = {"trigger": "axis", "confine": True}
    if durations:
        tooltip[":valueFormatter"] = "value => value == null ? '' : databus.seconds(value)"
        axis["axisLabel"] = {"color": SOFT, ":formatter": "value => databus.decade(value)"}
        axis |= {"type": "log", "logBase": 10, "min": 1}
    parts = {"hour": "2-digit", "minute": "2-digit"} | ({"second": "2-digit"} if fine else {})
    clock = f"databus.siteTime({json.dumps(zone)}, {json.dumps(parts)})"
    options: Row = {
        "animation": False,
        "grid": {"left": 52, "right": 18, "top": 30, "bottom": 52 if zoom else 24},
        "legend": {"top": 0, "right": 18, "itemHeight": 8, "textStyle": {"color": SOFT}, "icon":
        "roundRect"},
        "tooltip": tooltip,
        "xAxis": {"type": "time", "axisLabel": {"color": SOFT, "hideOverlap": True, ":formatter":
        clock},
                  "axisLine": {"lineStyle": {"color": LINES}}},
        "yAxis": axis,
        "series": [
            _series(key, name, data.get(key, []), stacked, steps) for key, name in names.items()
        ],
    }  # fmt: skip
    if zoom:
        options["dataZoom"] = [{"type": "inside"}, {"type": "slider", "height": 18, "bottom": 6}]
    made = ui.echart(options).style(f"width: 100%; height: {height}")
    made.props(f'role=img aria-label="{label}"')
    return made


def _series(key: str, name: str, data: list[list[object]], stacked: bool, steps: bool) -> Row:
    colour = COLOURS.get(key, "#4aa8ff")
    series: Row = {
        "name": name, "type": "line", "showSymbol": False, "data": data, "sampling": "lttb",
        "lineStyle": {"width": 2, "color": colour}, "itemStyle": {"color": colour},
    }  # fmt: skip
    if steps:  # a count holds until it is another
        series |= {"step": "end", "sampling": "max"}
    if stacked:
        series |= {"stack": "all", "areaStyle": {"opacity": 0.25, "color": colour}}
    return series


def redraw(made: ui.echart, data: Mapping[str, Sequence[Sequence[object]]]) -> None:
    """New curves in an old chart: what the reader has zoomed into stays."""
    made.run_chart_method("setOption", {"series": [{"data": curve} for curve in data.values()]})
