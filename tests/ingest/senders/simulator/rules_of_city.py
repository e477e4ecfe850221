"""The rules of a city, its lists among them, as the product matches them."""

from __future__ import annotations

from pathlib import Path

from alarm.rules import RuleSet, compile_rules
from alarm.rules.references import References
from bus.contracts.commands import WatchCommand
from bus.domain.feature_models import FeatureSettings
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from ingest.senders.simulator.generator import RecordGenerator
from ingest.senders.simulator.listed_car import ListedCarsRule
from tests.alarm.lists.made_galleries import made_gallery
from tests.alarm.lists.made_lists import made_list


def rules_of(
    city: RecordGenerator, folder: Path, places: RegisteredPlaces = NO_PLACES
) -> RuleSet:
    """All of them in force."""
    lists = {
        one.list_id: made_list(folder, one.list_id, one.plates, tolerance="look-alikes")
        for one in city.rules
        if isinstance(one, ListedCarsRule)
    }
    gallery = city.wanted_faces
    command = gallery.command(1)
    assert command.model is not None
    model = FeatureSettings().table()[command.model.name.upper()]
    assert command.model == model, "what the decider takes"
    faces = {f"P{at}": own.tobytes() for at, own in enumerate(gallery.features)}
    galleries = {gallery.list_id: made_gallery(folder, gallery.list_id, faces, model=model)}
    commands = [one.command(1) for one in city.rules]
    rules = [one for one in commands if isinstance(one, WatchCommand)]
    found = compile_rules(rules, References(lists, places, galleries))
    assert len(found) == len(commands)
    return found
