"""The metadata, read only: the image of a KRaft cluster or the znodes, and the newest records."""

from __future__ import annotations

import json

from nicegui import ui

from monitor.cluster.poller import MetadataView
from monitor.console.address import MAX_TEXT
from monitor.console.cluster_rows import record_row, tree_nodes
from monitor.console.elements import grid, panel, update_rows
from monitor.console.layout import View
from monitor.console.rows import Row, column

REFRESH_SECONDS = 5.0
VALUE_SLOT = (
    "<span>{{ props.node.label }}</span>"
    '<span class="value mono small">{{ props.node.value }}</span>'
)


def build(view: View) -> None:
    """The page."""
    MetadataTreePage(view)


class MetadataTreePage:
    """Reloads every few seconds while the page is open; expanded nodes stay expanded."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._last: MetadataView | None = None
        self._drawn = ""
        t = view.t
        self._fault = ui.label("").classes("notice").props("role=status")
        self._fault.set_visibility(False)
        with ui.element("div").classes("metadata rest"):
            with panel(t("metadata.tree")) as bar:
                with bar:
                    ui.element("div").classes("grow")
                    self._find = ui.input(
                        placeholder=t("metadata.filter"),
                        value=view.address["find"],
                        on_change=self._type,
                    ).style("width: 220px")
                    self._find.props("outlined dense clearable debounce=300")
                    self._find.props(f"maxlength={MAX_TEXT}")
                with ui.element("div").classes("tree"):
                    self._tree = ui.tree([], label_key="label").props("dense no-transition")
                    self._tree.props(f'no-nodes-label="{t("metadata.empty")}"')
                    self._tree.add_slot("default-header", VALUE_SLOT)
            znodes = bool(view.services.console.zookeeper)
            title = t("metadata.newest_znodes" if znodes else "metadata.newest")
            with panel(title):
                self._records = grid(t, _columns(view, znodes), label=title, rowData=[])
        view.address.watch(("find",), self._follow)
        ui.timer(REFRESH_SECONDS, self._refresh)

    async def _type(self) -> None:
        find = (self._find.value or "").strip()
        await self._view.address.go({"find": find}, typing="find")

    def _follow(self) -> None:
        if (self._find.value or "").strip() != self._view.address["find"]:
            self._find.set_value(self._view.address["find"])
        self._draw()

    async def _refresh(self) -> None:
        found = self._last = await self._view.services.poller.metadata()
        described = self._view.t("metadata.described") if found.is_described else ""
        fault = self._view.t("metadata.fault", fault=found.fault) if found.fault else described
        self._fault.set_text(fault)
        self._fault.set_visibility(bool(fault))
        zone = self._view.services.site.tz
        update_rows(self._records, [record_row(row, zone) for row in found.newest])
        self._draw()

    def _draw(self) -> None:
        """Only when it differs: a new tree would close under the reader's hand."""
        if self._last is None:
            return
        find = self._view.address["find"].lower()
        nodes = tree_nodes(self._last.tree, find, self._view.t)
        text = json.dumps(nodes)
        if text == self._drawn:
            return
        self._drawn = text
        self._tree.props["nodes"] = nodes
        self._tree.update()
        if find:
            self._tree.expand()


def _columns(view: View, znodes: bool) -> list[Row]:
    t = view.t
    return [
        column(t, "zxid" if znodes else "offset", "offset", number=True, width=88, sort="desc"),
        column(t, "version" if znodes else "epoch", "epoch", number=True, width=64),
        column(t, "at", "time", width=84, tooltipField="moment"),
        column(t, "znode" if znodes else "record", "kind", cellClass="strong",
               tooltipField="kind", **({"flex": 1} if znodes else {"width": 170})),
        column(t, "content", "value", flex=1, minWidth=240, tooltipField="value",
               cellClass="mono small"),
    ]  # fmt: skip
