"""The mirror to the second site: how far it is, what is proven, what somebody has to do."""

from __future__ import annotations

from nicegui import ui

from bus.contracts.mirror_status import MirrorReport, StateRemedy
from bus.runtime.wall_clock import now_ms
from monitor.api.mirror import MirrorUnavailable, mirror_report
from monitor.console.elements import chip, facts, grid, line_chart, panel, redraw, update_rows
from monitor.console.layout import View
from monitor.console.mirror_rows import (
    curves,
    difference_rows,
    diverged_id_facts,
    duration,
    edge_facts,
    is_old,
    listed,
    picture_facts,
    remedies,
    tiles,
    topic_rows,
)
from monitor.console.notices import FaultNotice
from monitor.console.rows import Row, column

REFRESH_SECONDS = 2.0
CURVES = ("rpo", "records")
TILES = (
    "state", "rpo", "rpo_edges", "rto", "lag_records", "lag_bytes", "complete_to", "differences",
    "pictures",
)  # fmt: skip


def build(view: View) -> None:
    """The page."""
    MirrorPage(view)


class MirrorPage:
    """Asks the mirror every two seconds while the page is open; what it said last stays."""

    def __init__(self, view: View) -> None:
        self._view = view
        t = view.t
        self._notice = FaultNotice()
        self._title = ui.label("").classes("soft")
        self._values: dict[str, ui.label] = {}
        self._boxes: dict[str, ui.element] = {}
        with ui.element("div").classes("tiles") as self._tiles:
            for key in TILES:
                self._tile(key)
        with ui.element("div") as self._remedy_panel, panel(t("mirror.remedies")):
            self._remedies = ui.element("div")
        self._drawn_remedies: object = None
        with ui.element("div") as self._difference_panel, panel(t("mirror.what_differs")):
            columns = _difference_columns(view)
            self._differences = grid(
                t, columns, label=t("mirror.what_differs"), height="150px", rowData=[]
            )
        with ui.element("div") as self._topic_panel, panel(t("mirror.topics")):
            columns = _topic_columns(view)
            self._topics = grid(t, columns, label=t("mirror.topics"), height="300px", rowData=[])
        with ui.element("div").classes("two") as self._below:
            self._charts = {key: self._curve(key) for key in CURVES}
        with ui.element("div") as self._group_panel, panel(t("mirror.groups")):
            self._groups = ui.element("div")
        self._drawn_groups: object = None
        with ui.element("div") as self._diverged_panel, panel(t("mirror.own_tails")):
            self._diverged = ui.element("div")
        self._drawn_diverged: object = None
        self._diverged_panel.set_visibility(False)
        for part in self._parts:
            part.set_visibility(False)
        ui.timer(REFRESH_SECONDS, self.show)

    def _curve(self, key: str) -> ui.echart:
        t = self._view.t
        name = t(f"mirror.curve.{key}")
        with panel(f"{name} · {t('mirror.chart')}"):
            return line_chart(
                zone=self._view.services.site.zone, names={key: name}, data={}, label=name,
                height="190px",
            )  # fmt: skip

    @property
    def _parts(self) -> list[ui.element]:
        return [self._tiles, self._remedy_panel, self._difference_panel, self._topic_panel,
                self._below, self._group_panel]  # fmt: skip

    def _tile(self, key: str) -> None:
        with ui.element("dl").classes("tile").style("margin: 0") as box:
            with ui.element("dt"):
                ui.label(self._view.t(f"mirror.{key}"))
            with ui.element("dd"):
                self._values[key] = ui.label("—")
        self._boxes[key] = box

    async def show(self) -> None:
        """Ask and draw."""
        t = self._view.t
        self._show_diverged()
        try:
            services = self._view.services
            report = await mirror_report(services.console.mirror, services.page_token)
        except MirrorUnavailable as error:
            if error.is_configured:
                self._notice.show(t("mirror.unavailable"), str(error))
            else:
                self._notice.show(t("mirror.none"))
            self._values["state"].set_text(t("mirror.no_answer"))
            self._boxes["state"].classes(remove="good warning critical", add="critical")
            return
        self._draw(report)

    def _draw(self, report: MirrorReport) -> None:
        view, zone = self._view, self._view.services.site.tz
        t, status, at_ms = view.t, report.status, now_ms()
        self._notice.show(*self._warning(report, at_ms))
        self._title.set_text(
            t("mirror.clusters", source=status.source_cluster_id, target=status.target_cluster_id,
              generation=status.generation)
        )  # fmt: skip
        for key, tile in tiles(report, t, zone, at_ms).items():
            self._values[key].set_text(tile.text)
            self._boxes[key].classes(remove="good warning critical", add=tile.state)
        found = remedies(report)
        self._show_remedies(found)
        differences = difference_rows(report, t, zone)
        for part in self._parts:
            part.set_visibility(True)
        self._remedy_panel.set_visibility(bool(found))
        self._difference_panel.set_visibility(bool(differences))
        update_rows(self._differences, differences)
        update_rows(self._topics, topic_rows(report, t, zone))
        for key, curve in curves(report).items():
            redraw(self._charts[key], {key: curve})
        self._show_groups(report)

    def _warning(self, report: MirrorReport, at_ms: int) -> tuple[str, str]:
        """A sentence, and what was said of it."""
        t, status = self._view.t, report.status
        if is_old(report, at_ms):
            return t("mirror.old", age=duration((at_ms - status.at_ms) / 1000, t)), ""
        if status.unreachable:
            return t("mirror.unreachable"), status.unreachable
        why = status.proof.unavailable
        return (t("mirror.not_kept"), why) if why else ("", "")

    def _show_remedies(self, found: list[tuple[StateRemedy, list[str]]]) -> None:
        if found == self._drawn_remedies:
            return  # what somebody reads does not jump
        self._drawn_remedies = found
        language = self._view.t.language
        self._remedies.clear()
        with self._remedies, ui.element("dl").classes("facts"):
            for state, places in found:
                with ui.element("dt"):
                    chip(self._view.t.word("mirror_state", state.state), "critical")
                with ui.element("dd"):
                    ui.label(f"{listed(places)}: {state.meaning(language)}").classes("strong")
                    ui.label(state.remedy(language))

    def _show_diverged(self) -> None:
        """This console knows it itself, whether the mirror answers or not."""
        found = diverged_id_facts(self._view.services.hub.live.diverged_ids, self._view.t)
        self._diverged_panel.set_visibility(bool(found))
        if found == self._drawn_diverged:
            return
        self._drawn_diverged = found
        self._diverged.clear()
        with self._diverged:
            facts(found)

    def _show_groups(self, report: MirrorReport) -> None:
        groups, compared = report.status.groups_not_copied, report.status.proof.not_compared
        t = self._view.t
        edges = edge_facts(report, t)
        pictures = picture_facts(report, t, self._view.services.site.tz)
        found = groups, compared, edges, pictures
        if found == self._drawn_groups:
            return
        self._drawn_groups = found
        self._groups.clear()
        with self._groups:
            if groups:
                facts(sorted(groups.items()))
            else:
                ui.label(t("mirror.no_groups")).classes("soft")
            if compared:
                with ui.element("h2"):
                    ui.label(t("mirror.not_compared"))
                facts(sorted(compared.items()))
            if edges:
                with ui.element("h2"):
                    ui.label(t("mirror.edges"))
                facts(edges)
            if pictures:
                with ui.element("h2"):
                    ui.label(t("mirror.pictures"))
                facts(pictures)


def _topic_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "topic", "id", flex=2, minWidth=150, cellClass="strong"),
        column(t, "state", "state", width=120)
        | {":cellClass": "p => p.data.is_well ? 'ok' : 'bad'"},
        column(t, "partitions", "partitions", number=True, width=70),
        column(t, "lag_records", "lag_records", number=True, width=110),
        column(t, "lag_bytes", "lag_bytes", number=True, width=110),
        column(t, "lag_s", "lag_s", number=True, width=90),
        column(t, "missing_for_ever", "missing", number=True, width=90),
        column(t, "complete_to", "complete_to", width=160, cellDataType="text"),
        column(t, "proven_blocks", "blocks", number=True, width=120),
        column(t, "oldest_proof", "oldest", number=True, width=100),
        column(t, "detail", "detail", flex=2, minWidth=110, tooltipField="detail"),
    ]


def _difference_columns(view: View) -> list[Row]:
    t = view.t
    return [
        column(t, "partition", "partition", flex=2, minWidth=150, cellClass="strong"),
        column(t, "broker", "broker", width=90, cellClass="bad"),
        column(t, "directory", "directory", flex=3, minWidth=200, tooltipField="directory"),
        column(t, "offsets", "offsets", flex=2, minWidth=140),
        column(t, "since", "since", width=170, cellDataType="text"),
        column(t, "detail", "detail", flex=3, minWidth=180, tooltipField="detail"),
    ]
