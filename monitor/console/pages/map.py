"""The map: roads, checkpoints by state, pulses of alarms, the trajectory of one target; a list
beside it.
"""

from __future__ import annotations

import json

from nicegui import ui

from bus.contracts.alarms import Alarm
from monitor.api.services import now_ms
from monitor.api.views import clock
from monitor.console.components.city_map import CityMap
from monitor.console.elements import chip, grid, panel
from monitor.console.feed import Update
from monitor.console.rows import column, place_field
from monitor.console.shell import View

STATES_SECONDS = 1.0
MAX_TARGETS = 12
MAX_STOPS = 12  # of the trajectory; where a target was an hour ago does not help to stop it
_SHAPES = {"alarm": "◆", "fault": "▲", "active": "●", "quiet": "○", "unknown": "◌"}
_TONES = {
    "alarm": "critical",
    "fault": "warning",
    "active": "good",
    "quiet": "quiet",
    "unknown": "soft",
}


def build(view: View, target: str = "") -> None:
    """The page. `target` is the rule whose trajectory is shown first."""
    register = view.services.register.read()
    if not register.checkpoints:
        ui.label(view.t("map.no_register")).classes("notice")
    with ui.element("div").classes("map-page fit"):
        with ui.element("div").style("position: relative; min-height: 0; height: 100%"):
            city = CityMap(
                register_url=f"/api/register?v={view.services.register.version}",
                language=view.t.language,
                words=view.t.group("state"),
                label=view.t("map.label"),
            )
        with ui.element("div").classes("map-side"):
            Targets(view, city, target).follow()
            Checkpoints(view, city).follow()


class Targets:
    """The targets seen lately; the pressed one has its trajectory on the map."""

    def __init__(self, view: View, city: CityMap, target: str) -> None:
        self._view, self._city = view, city
        self._shown = target
        with panel(view.t("map.targets")) as bar:
            with bar:
                ui.element("div").classes("grow")
                ui.button(view.t("map.fit"), color=None, on_click=city.fit).classes("header-button")
            self._follow = ui.checkbox(view.t("map.follow"), value=not target).props("dense")
            self._list = ui.element("div").classes("targets")

    def follow(self) -> None:
        """Show what is known and grow with every alarm."""
        alarms = self._view.services.hub.live.alarms
        if not self._shown and alarms:
            self._shown = alarms[-1].rule_id
        self._draw_track()
        self._draw_list()
        self._view.feed.updates.subscribe(self._on_update)

    def _on_update(self, update: Update) -> None:
        if not update.delta.alarms:
            return
        for alarm in update.delta.alarms:
            self._city.pulse(alarm.checkpoint_id, alarm.severity)
        newest = update.delta.alarms[-1]
        if self._follow.value and newest.rule_id != self._shown:
            self._shown = newest.rule_id
            self._draw_track()
        else:
            self._grow(update.delta.alarms)
        self._draw_list()

    def _grow(self, alarms: tuple[Alarm, ...]) -> None:
        track = self._view.services.hub.live.trajectory(self._shown)
        fresh = [a for a in alarms if a.rule_id == self._shown]
        if fresh and track[-len(fresh) :] == sorted(fresh, key=_order):
            for alarm in sorted(fresh, key=_order):
                self._city.grow(self._stop(alarm))
        elif fresh:  # one came late: its place is not at the end
            self._draw_track()

    def _draw_track(self) -> None:
        track = self._view.services.hub.live.trajectory(self._shown)
        self._city.track([self._stop(alarm) for alarm in track[-MAX_STOPS:]])

    def _stop(self, alarm: Alarm) -> dict[str, str]:
        time = clock(alarm.captured_at_ms, self._view.services.site.tz)[11:19]
        return {"id": alarm.checkpoint_id, "time": time}

    def _draw_list(self) -> None:
        self._list.clear()
        newest: dict[str, Alarm] = {}
        counts: dict[str, int] = {}
        for alarm in self._view.services.hub.live.alarms:
            newest.pop(alarm.rule_id, None)
            newest[alarm.rule_id] = alarm
            counts[alarm.rule_id] = counts.get(alarm.rule_id, 0) + 1
        with self._list:
            for alarm in list(reversed(newest.values()))[:MAX_TARGETS]:
                self._target(alarm, counts[alarm.rule_id])
            if not newest:
                ui.label(self._view.t("map.no_targets")).classes("soft")

    def _target(self, alarm: Alarm, count: int) -> None:
        t = self._view.t
        pressed = str(alarm.rule_id == self._shown).lower()
        with (
            ui.element("button").classes("target").props(f"type=button aria-pressed={pressed}") as b
        ):
            chip(t.word("severity", alarm.severity), alarm.severity)
            ui.label(alarm.rule_name or alarm.rule_id).style("font-weight: 600")
            ui.element("div").classes("grow")
            ui.label(t("map.hits", count=count)).classes("soft small")
        b.on("click", lambda: self._choose(alarm.rule_id))

    def _choose(self, rule_id: str) -> None:
        self._shown = rule_id
        self._follow.set_value(False)
        self._draw_track()
        self._draw_list()


def _order(alarm: Alarm) -> tuple[int, str]:
    return alarm.captured_at_ms, alarm.alarm_id


class Checkpoints:
    """The list beside the map: the way to a checkpoint without a mouse, and its state in words."""

    def __init__(self, view: View, city: CityMap) -> None:
        self._view, self._city = view, city
        self._told: dict[str, str] = {}
        t = view.t
        with panel(t("map.checkpoints"), "list"):
            with ui.element("div").classes("legend small"):
                for state, shape in _SHAPES.items():
                    with ui.element("span"):
                        ui.label(shape).style(f"color: var(--{_TONES[state]})").props(
                            "aria-hidden=true"
                        )
                        ui.label(t(f"state.{state}"))
            search = ui.input(t("map.filter")).props("outlined dense clearable")
            columns = [
                column(t, "checkpoint", "name", flex=3, sortable=True),
                column(t, "state", "state", renderer="state", width=86, sortable=True),
            ]
            self._grid = grid(
                t, columns, label=t("map.checkpoints"), height="100%", rowData=self._rows()
            ).classes("pick fill")
        search.on_value_change(
            lambda e: ui.run_javascript(
                f"databus.filter({self._grid.id}, {json.dumps(e.value or '')})"
            )
        )
        self._grid.on("cellClicked", lambda e: city.select(e.args["data"]["id"]))
        self._grid.on("cellKeyDown", lambda e: city.select(e.args["data"]["id"]))

    def follow(self) -> None:
        """Tell the map the states, then only what changes."""
        self._tell()
        ui.timer(STATES_SECONDS, self._tell)

    def _states(self) -> dict[str, str]:
        live, now = self._view.services.hub.live, now_ms()
        quiet_ms = self._view.services.console.quiet_after_seconds * 1000
        return {
            c.checkpoint_id: live.checkpoint_state(c.checkpoint_id, now, quiet_ms)
            for c in self._view.services.register.read().checkpoints
        }

    def _rows(self) -> list[dict[str, str]]:
        states = self._states()
        english = place_field(self._view.t) == "checkpoint_en"
        return [
            {
                "id": c.checkpoint_id,
                "name": c.name_en if english else c.name,
                "state": states[c.checkpoint_id],
            }
            for c in self._view.services.register.read().checkpoints
        ]

    def _tell(self) -> None:
        states = self._states()
        changed = [(k, v) for k, v in states.items() if self._told.get(k) != v]
        if not changed:
            return
        self._told = states
        self._city.set_states(changed)
        fresh = {k for k, _ in changed}
        rows = [row for row in self._rows() if row["id"] in fresh]
        ui.run_javascript(
            f"getElement({self._grid.id})?.api?.applyTransaction("
            f"{{update: {json.dumps(rows, ensure_ascii=False)}}})"
        )
