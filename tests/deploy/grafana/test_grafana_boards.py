"""The boards fit Grafana's schema, and the checker that says so refuses boards that do not."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from deploy.grafana import boards
from tests.deploy.grafana.grafana_schema import faults_of

Board = dict[str, Any]


def board() -> Board:
    found: Board = json.loads(boards.text("flow"))
    return found


@pytest.mark.parametrize("name", boards.BOARDS)
def test_every_board_fits_grafanas_schema(name: str) -> None:
    """The version of the schema, 39, is that of Grafana 11."""
    text = (boards.HERE / f"{name}.json").read_text(encoding="utf-8")
    assert faults_of(json.loads(text)) == []


WRONG: dict[str, tuple[Callable[[Board], object], str]] = {
    "a text for a number": (
        lambda b: b["panels"][0]["gridPos"].update(w="8"), "board.panels[0].grid_pos.w",
    ),
    "a truth for a number": (lambda b: b["panels"][1].update(id=True), "board.panels[1].id"),
    "a number for a text": (lambda b: b.update(title=7), "board.title"),
    "a query that is no text": (
        lambda b: b["panels"][2]["targets"][0].update(expr=["up"]), "board.panels[2].targets[0].expr",
    ),
    "a field that no panel has": (
        lambda b: b["panels"][0].update(colour="red"), "board.panels[0].colour",
    ),
    "an option that the panel has not": (
        lambda b: b["panels"][0]["options"].update(legends={}), "board.panels[0].options.legends",
    ),
    "a place of the legend that is none": (
        lambda b: b["panels"][0]["options"]["legend"].update(placement="middle"),
        "board.panels[0].options.legend.placement",
    ),
    "a panel that Grafana has not": (
        lambda b: b["panels"][0].update(type="curve"), "board.panels[0].type",
    ),
    "a source that Grafana has not": (
        lambda b: b["panels"][0].update(datasource={"type": "promethius", "uid": "x"}),
        "board.panels[0].targets[0]",
    ),
    "a variable of no kind": (
        lambda b: b["templating"]["list"][0].update(type="source"), "board.templating.list",
    ),
    "a least value that is a text": (
        lambda b: b["panels"][0]["fieldConfig"]["defaults"].update(min="0"),
        "board.panels[0].field_config.defaults.min",
    ),
    "no list of panels": (lambda b: b.update(panels={}), "board"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_board_is_refused_with_the_place(what: str) -> None:
    spoil, place = WRONG[what]
    spoilt = board()
    spoil(spoilt)
    faults = faults_of(spoilt)
    assert any(fault.startswith(place) for fault in faults), faults


def places(value: object) -> list[tuple[Any, Any]]:
    """Every value of a board with what holds it."""
    holders: list[Any] = [value]
    found = []
    for holder in holders:
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                holders.append(holder[key])
    return found


def test_a_value_of_another_type_is_never_passed_over(dice: random.Random) -> None:
    """Property: whichever value of a board is replaced by one of a kind that stands nowhere."""
    for _ in range(12):
        spoilt = copy.deepcopy(board())
        holder, key = dice.choice(places(spoilt))
        is_number = isinstance(holder[key], int) and not isinstance(holder[key], bool)
        holder[key] = "text" if is_number else 1.5
        assert faults_of(spoilt), (holder, key)
