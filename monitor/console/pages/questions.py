"""Who asked what, when and why: for administrators; the filters stand in the address."""

from __future__ import annotations

import json

from nicegui import ui

from monitor.console.address import QUESTION_KINDS
from monitor.console.elements import load_rows, paged_grid, panel, source
from monitor.console.layout import View
from monitor.console.rows import column

_FIELDS = ("account", "kind", "case", "text")


def build(view: View) -> None:
    """The page."""
    QuestionList(view)


class QuestionList:
    """The filters above, a page of the file after the other below."""

    def __init__(self, view: View) -> None:
        self._view, t = view, view.t
        policy = view.services.questions.policy
        kinds = {"": t("questions.any")} | {k: t(f"question.{k}") for k in QUESTION_KINDS if k}
        with panel(t("questions.list"), "rest"):
            with ui.element("div").classes("bar"):
                account = ui.input(t("questions.account"))
                kind = ui.select(kinds, label=t("questions.kind")).style("width: 150px")
                case = ui.input(t("questions.case"))
                text = ui.input(t("questions.text"))
                ui.button(t("search.go"), on_click=self._search).props("unelevated dense")
                ui.label(t("questions.kept", days=policy.questions_days)).classes("soft")
            fields: tuple[ui.input | ui.select, ...] = (account, kind, case, text)
            self._fields = dict(zip(_FIELDS, fields, strict=True))
            for field in fields:
                field.props("outlined dense")
            for field in (account, case, text):
                field.on("keydown.enter", self._search)
            words = t.group("question")
            self._grid = paged_grid(
                t,
                [
                    column(t, "asked_at", "at", width=190),
                    column(t, "account", "account", width=120, cellClass="strong"),
                    column(t, "question", "kind", width=120,
                           **{":valueFormatter": f"p => ({_js(words)})[p.value] ?? p.value"}),
                    column(t, "subject", "subject_text", flex=3, minWidth=200),
                    column(t, "case_number", "case", width=140),
                    column(t, "reason_said", "reason", flex=2, minWidth=140),
                ],
                label=t("questions.list"),
                id_field="id",
                **{":datasource": source("/api/questions", self._parameters())},
            )  # fmt: skip
        view.address.watch(_FIELDS, self._follow)
        self._show()

    def _parameters(self) -> dict[str, str]:
        asked = {name: self._view.address[name] for name in _FIELDS}
        return {name: value for name, value in asked.items() if value}

    async def _search(self) -> None:
        typed = {name: (field.value or "").strip() for name, field in self._fields.items()}
        if not await self._view.address.go(typed):
            self._load()

    def _follow(self) -> None:
        self._show()
        self._load()

    def _show(self) -> None:
        for name, field in self._fields.items():
            field.set_value(self._view.address[name])

    def _load(self) -> None:
        load_rows(self._grid, "/api/questions", self._parameters())


def _js(words: dict[str, str]) -> str:
    return json.dumps(words, ensure_ascii=False)
