"""The map: roads, checkpoints by state, pulses of alarms, the trajectory of one target; a list
beside it.
"""

from __future__ import annotations

import json

from nicegui import ui
from nicegui.events import GenericEventArguments

from bus.contracts.alarms import Alarm
from bus.runtime.wall_clock import now_ms
from monitor.api.views import clock, place
from monitor.console.address import MAX_TEXT
from monitor.console.components.city_map import CityMap
from monitor.console.elements import chip, grid, link, panel
from monitor.console.layout import View
from monitor.console.live_updates import Update
from monitor.console.pages.plate_track import PlateTrack
from monitor.console.rows import column, place_field

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


def build(view: View) -> None:
    """The page."""
    register = view.services.register.read()
    if not register.checkpoints:
        ui.label(view.t("map.no_register")).classes("notice")
    with ui.element("div").classes("map-page rest"):
        with ui.element("div").style("position: relative; min-height: 0; height: 100%"):
            city = CityMap(
                register_url=f"/api/register?v={view.services.register.version}",
                language=view.t.language,
                words=view.t.group("state"),
                label=view.t("map.label"),
            )
        with ui.element("div").classes("map-side"):
            PlateTrack(view, city)
            Targets(view, city).follow()
            ChosenCheckpoint(view, city)
            CheckpointPanel(view, city).follow()
    city.on_pick(lambda checkpoint_id: view.address.go({"checkpoint": checkpoint_id}))


class Targets:
    """The targets seen lately; the pressed one has its trajectory on the map. The one that the
    address names is kept; without one the map follows the newest alarm, unless the way of a plate
    is shown.
    """

    def __init__(self, view: View, city: CityMap) -> None:
        self._view, self._city = view, city
        self._target_id = view.address["target"]
        with panel(view.t("map.targets")) as bar:
            with bar:
                ui.element("div").classes("grow")
                ui.button(view.t("map.fit"), color=None, on_click=city.fit).classes("header-button")
            follows = not self._target_id
            self._follow = ui.checkbox(view.t("map.follow"), value=follows).props("dense")
            self._list = ui.element("div").classes("targets")

    def follow(self) -> None:
        """Show what is known and grow with every alarm."""
        self._retarget()
        self._follow.on_value_change(
            lambda e: self._choose("" if e.value else self._target_id)
        )
        self._view.address.watch(("target", "plate"), self._retarget)
        self._view.feed.subscribe(self._on_update)

    @property
    def _is_of_a_plate(self) -> bool:
        return bool(self._view.address["plate"])

    async def _choose(self, rule_id: str) -> None:
        if rule_id != self._view.address["target"] or (rule_id and self._is_of_a_plate):
            await self._view.address.go({"target": rule_id, "plate": "", "from": "", "until": ""})

    def _retarget(self) -> None:
        target, alarms = self._view.address["target"], self._view.live.alarms
        self._follow.set_value(not target and not self._is_of_a_plate)
        self._target_id = target or (alarms[-1].rule_id if alarms else "")
        self._draw_track()
        self._draw_list()

    def _on_update(self, update: Update) -> None:
        if not update.delta.alarms:
            return
        for alarm in update.delta.alarms:
            self._city.pulse(alarm.checkpoint_id, alarm.severity)
        newest = update.delta.alarms[-1]
        if self._is_of_a_plate:
            pass
        elif self._follow.value and newest.rule_id != self._target_id:
            self._target_id = newest.rule_id
            self._draw_track()
        else:
            self._grow(update.delta.alarms)
        self._draw_list()

    def _grow(self, alarms: tuple[Alarm, ...]) -> None:
        track = self._view.live.trajectory(self._target_id)
        fresh = [a for a in alarms if a.rule_id == self._target_id]
        if fresh and track[-len(fresh) :] == sorted(fresh, key=_order):
            for alarm in sorted(fresh, key=_order):
                self._city.grow(self._stop(alarm))
        elif fresh:  # one came late: its place is not at the end
            self._draw_track()

    def _draw_track(self) -> None:
        if self._is_of_a_plate:
            return
        track = self._view.live.trajectory(self._target_id)
        self._city.track([self._stop(alarm) for alarm in track[-MAX_STOPS:]])

    def _stop(self, alarm: Alarm) -> dict[str, str]:
        time = clock(alarm.captured_at_ms, self._view.services.site.tz)[11:19]
        return {"id": alarm.checkpoint_id, "time": time}

    def _draw_list(self) -> None:
        self._list.clear()
        newest: dict[str, Alarm] = {}
        counts = self._view.live.hits()
        for alarm in self._view.live.alarms:
            newest.pop(alarm.rule_id, None)
            newest[alarm.rule_id] = alarm
        with self._list:
            for alarm in list(reversed(newest.values()))[:MAX_TARGETS]:
                self._target(alarm, counts[alarm.rule_id])
            if not newest:
                ui.label(self._view.t("map.no_targets")).classes("soft")

    def _target(self, alarm: Alarm, count: int) -> None:
        t = self._view.t
        pressed = str(alarm.rule_id == self._target_id and not self._is_of_a_plate).lower()
        with (
            ui.element("button").classes("target").props(f"type=button aria-pressed={pressed}") as b
        ):
            chip(t.word("severity", alarm.severity), alarm.severity)
            ui.label(alarm.rule_name or alarm.rule_id).style("font-weight: 600")
            ui.element("div").classes("grow")
            ui.label(t("map.hits", count=count)).classes("soft small")
        b.on("click", lambda: self._choose(alarm.rule_id))


def _order(alarm: Alarm) -> tuple[int, str]:
    return alarm.captured_at_ms, alarm.alarm_id


class ChosenCheckpoint:
    """The checkpoint that the address names: shown on the map, with the way to its records."""

    def __init__(self, view: View, city: CityMap) -> None:
        self._view, self._city = view, city
        self._box = ui.element("section").classes("panel chosen")
        view.address.watch(("checkpoint",), self._show)
        self._show()

    def _show(self) -> None:
        view, checkpoint_id = self._view, self._view.address["checkpoint"]
        self._box.set_visibility(bool(checkpoint_id))
        if not checkpoint_id:
            return
        self._city.select(checkpoint_id)
        self._box.clear()
        with self._box, ui.element("div").classes("bar"):
            row = place(checkpoint_id, view.services.register.read())
            with ui.element("h2"):
                ui.label(row[place_field(view.t)])
            ui.element("div").classes("grow")
            for page in ("records", "alarms"):
                link(view.t(f"nav.{page}"), page, checkpoint=checkpoint_id)
            close = ui.button(
                icon="close", color=None, on_click=lambda: view.address.go({"checkpoint": ""})
            )
            close.props(f'flat round dense aria-label="{view.t("detail.close")}"')


class CheckpointPanel:
    """The list beside the map: the way to a checkpoint without a mouse, and its state in words."""

    def __init__(self, view: View, city: CityMap) -> None:
        self._view, self._city = view, city
        self._sent_states: dict[str, str] = {}
        t = view.t
        with panel(t("map.checkpoints"), "list"):
            with ui.element("div").classes("legend small"):
                for state, shape in _SHAPES.items():
                    with ui.element("span"):
                        ui.label(shape).style(f"color: var(--{_TONES[state]})").props(
                            "aria-hidden=true"
                        )
                        ui.label(t(f"state.{state}"))
            self._find = ui.input(t("map.filter"), value=view.address["find"])
            self._find.props(f"outlined dense clearable maxlength={MAX_TEXT}")
            columns = [
                column(t, "checkpoint", "name", flex=3, sortable=True),
                column(t, "state", "state", renderer="state", width=86, sortable=True),
            ]
            self._grid = grid(
                t, columns, label=t("map.checkpoints"), rowData=self._rows(),
                quickFilterText=view.address["find"],
            ).classes("pick fill")  # fmt: skip
        self._find.on_value_change(self._type)
        self._grid.on("cellClicked", lambda e: self._choose(e, ""))
        self._grid.on("cellKeyDown", lambda e: self._choose(e, "checkpoint"))
        view.address.watch(("find",), self._filter)

    async def _choose(self, event: GenericEventArguments, typing: str) -> None:
        chosen = {"checkpoint": event.args["data"]["id"]}
        await self._view.address.go(chosen, typing=typing)
        self._city.select(chosen["checkpoint"])  # the same one again, after the map was moved

    async def _type(self) -> None:
        find = (self._find.value or "").strip()
        await self._view.address.go({"find": find}, typing="find")

    def _filter(self) -> None:
        find = self._view.address["find"]
        if (self._find.value or "").strip() != find:
            self._find.set_value(find)
        ui.run_javascript(f"databus.filter({self._grid.id}, {json.dumps(find)})")

    def follow(self) -> None:
        """Tell the map the states, then only what changes."""
        self._announce_states()
        ui.timer(STATES_SECONDS, self._announce_states)

    def _states(self) -> dict[str, str]:
        live, now = self._view.live, now_ms()
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

    def _announce_states(self) -> None:
        states = self._states()
        changed = [(k, v) for k, v in states.items() if self._sent_states.get(k) != v]
        if not changed:
            return
        self._sent_states = states
        self._city.set_states(changed)
        fresh = {k for k, _ in changed}
        rows = [row for row in self._rows() if row["id"] in fresh]
        ui.run_javascript(
            f"getElement({self._grid.id})?.api?.applyTransaction("
            f"{{update: {json.dumps(rows, ensure_ascii=False)}}})"
        )
