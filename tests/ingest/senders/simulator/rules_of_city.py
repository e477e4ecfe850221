"""The rules of a city, its list among them, as the product matches them."""

from __future__ import annotations

from pathlib import Path

from alarm.rules import RuleSet, compile_rules
from alarm.rules.references import References
from bus.contracts.commands import WatchCommand
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from ingest.senders.simulator.listed_car import ListedCarsRule
from ingest.senders.simulator.watched_cars import WatchedCars
from tests.alarm.lists.made_lists import made_list


def rules_of(
    cars: WatchedCars, folder: Path, places: RegisteredPlaces = NO_PLACES
) -> RuleSet:
    """All of them in force."""
    lists = {
        one.list_id: made_list(folder, one.list_id, one.plates, tolerance="look-alikes")
        for one in cars.rules
        if isinstance(one, ListedCarsRule)
    }
    commands = [one.command(1) for one in cars.rules]
    rules = [one for one in commands if isinstance(one, WatchCommand)]
    found = compile_rules(rules, References(lists, places))
    assert len(found) == len(commands)
    return found
