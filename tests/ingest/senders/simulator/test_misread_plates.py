"""Plates that cameras misread: as a measured reader does, and one car's by script."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.domain.plate_confusion_tables import HELD_OUT
from bus.domain.plates import is_whole
from bus.domain.registered_places import RegisteredPlaces
from ingest.senders.simulator.generator import GeneratedRecord, RecordGenerator
from ingest.senders.simulator.ground_truth import VALID
from ingest.senders.simulator.listed_car import LINES, ListedCarsRule
from ingest.senders.simulator.plate_misreader import UNSURE_BELOW, MisreadPlate, PlateMisreader
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.world import build_world
from tests.ingest.senders.simulator.rules_of_city import rules_of

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def city() -> RecordGenerator:
    settings = CitySettings(rate=40.0, picture_every=0, face_share=0.0, misread=0.2)
    return RecordGenerator(
        build_world(1), settings, ZoneInfo("Asia/Shanghai"), run="r", start_ms=START_MS
    )


@pytest.fixture(scope="module")
def made(city: RecordGenerator) -> list[GeneratedRecord]:
    found = city.until(START_MS + 90_000)
    return [r for r in found if r.line.expected == VALID and r.line.kind == "vehicle"]


def plate_of(record: GeneratedRecord) -> str:
    return str(msgspec.json.decode(record.body).get("车牌号码", ""))


def test_a_reading_is_drawn_as_often_as_it_was_counted() -> None:
    misreader = PlateMisreader(random.Random(1))
    read = Counter(misreader.read("Q").text for _ in range(20_000))
    row = HELD_OUT.rows["Q"]
    share = row["0"] / sum(row.values())
    assert read["0"] / 20_000 == pytest.approx(share, abs=0.02)
    assert all(misreader.misread("浙A8D345").text != "浙A8D345" for _ in range(100))


def test_a_reader_says_of_each_character_how_sure_it_is() -> None:
    misreader = PlateMisreader(random.Random(2))
    for _ in range(500):
        text, sure = misreader.read("浙A8D345")
        assert len(text) == len(sure)
        assert all(own < 40 if sign == "?" else 40 <= own <= 100 for sign, own in zip(text, sure, strict=True))


def test_of_characters_that_it_doubts_a_camera_says_what_else_they_may_be() -> None:
    """Whole plates, other by one character; of plates that are misread so often more than by chance
    the right one is among them. Asking draws nothing."""
    misreader, twin = PlateMisreader(random.Random(3)), PlateMisreader(random.Random(3))
    named = right = 0
    for _ in range(2_000):
        read = misreader.misread("浙A8Q34B")
        further = misreader.candidates(read)
        assert read == twin.misread("浙A8Q34B")
        assert all(is_whole(plate) and 0.01 <= weight < 1 for plate, weight in further)
        assert [weight for _, weight in further] == sorted((weight for _, weight in further), reverse=True)
        for plate, _ in further:
            [(at, _)] = [(at, one) for at, one in enumerate(plate) if one != read.text[at]]
            assert read.sure[at] < UNSURE_BELOW
        named += bool(further)
        right += "浙A8Q34B" in {plate for plate, _ in further}
    assert named > 500
    assert right > 0.3 * named
    assert misreader.candidates(MisreadPlate("浙A8D345", (99,) * 7)) == ()


@pytest.mark.slow
def test_the_truth_has_the_plate_where_another_was_read(made: list[GeneratedRecord]) -> None:
    misread = [record for record in made if record.line.true_plate]
    assert 0.1 < len(misread) / len(made) < 0.3
    assert all(record.line.true_plate != plate_of(record) for record in misread)


@pytest.mark.slow
def test_the_expected_alarms_are_those_of_the_real_rules(
    city: RecordGenerator, made: list[GeneratedRecord], tmp_path: Path
) -> None:
    """Though a fifth of all plates are misread, those of watched cars, too."""
    rules = rules_of(city, tmp_path, RegisteredPlaces(city.world.register))
    for record in made:
        attributes = rules.attributes("vehicle", msgspec.json.decode(record.body))
        found = [rule.rule_id for rule in rules.match("vehicle", attributes, [START_MS])]
        assert sorted(record.line.alarms) == found, plate_of(record)
    assert any("车牌候选" in msgspec.json.decode(record.body) for record in made)


@pytest.mark.slow
def test_only_the_fuzzy_rule_finds_the_car_that_is_misread_and_not_its_lookalike(
    city: RecordGenerator, made: list[GeneratedRecord]
) -> None:
    cars = city.watched_cars
    alarms = {plate_of(record): record.line.alarms for record in made}
    assert alarms[cars.misread.read_as] == ("city-1-misread",)
    assert alarms[cars.misread.plate_number] == ("city-1-misread",)
    assert alarms[cars.lookalike.plate_number] == ()


@pytest.mark.slow
def test_only_the_list_finds_the_car_that_is_on_it_and_not_its_neighbour(
    city: RecordGenerator, made: list[GeneratedRecord]
) -> None:
    cars = city.watched_cars
    alarms = {plate_of(record): record.line.alarms for record in made}
    assert alarms[cars.listed.plate_number] == ("list/city-1-listed",)
    assert alarms[cars.listed.read_as] == ("list/city-1-listed",)
    assert alarms[cars.unlisted.plate_number] == ()


def test_the_list_has_thousands_of_plates_and_those_of_no_other_watched_car() -> None:
    for seed in range(20):
        world = build_world(seed)
        city = RecordGenerator(
            world, CitySettings(), ZoneInfo("Asia/Shanghai"), run="r", start_ms=START_MS
        )
        cars = city.watched_cars
        [found] = [one for one in cars.rules if isinstance(one, ListedCarsRule)]
        assert len(found.plates) == LINES
        listed = {cars.listed.plate_number, cars.listed.read_as}
        meant = {plate for plate in cars.plates if found.matches({"车牌号码": plate})}
        assert meant == listed, seed
