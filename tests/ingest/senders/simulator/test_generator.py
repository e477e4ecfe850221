"""What the city says about its records is what independent readers find."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from bus.domain.registered_places import RegisteredPlaces
from ingest.normalise import Envelope, normalise
from ingest.senders.simulator.generator import GeneratedRecord, RecordGenerator
from ingest.senders.simulator.ground_truth import VALID
from ingest.senders.simulator.population import WANTED_PERSON, make_person
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.world import build_world
from ingest.store.port import RejectedRow
from tests.ingest.senders.simulator.rules_of_city import rules_of

ZONE = "Asia/Shanghai"
START_MS = 1_700_000_000_000
SPAN_MS = 125_000  # more than one period of the script
SEEDS = (1, pytest.param(11, marks=pytest.mark.slow))


def assembly(seed: int, **changes: object) -> RecordGenerator:
    settings = CitySettings(seed=seed, rate=40.0, picture_every=100, **changes)  # type: ignore[arg-type]
    return RecordGenerator(
        build_world(seed), settings, ZoneInfo(ZONE), run="r", start_ms=START_MS, edge_sender="e"
    )


@pytest.fixture(scope="module", params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def made(seed: int) -> list[GeneratedRecord]:
    return list(assembly(seed).until(START_MS + SPAN_MS))


def judged(record: GeneratedRecord) -> tuple[str, str, int]:
    """Outcome, own number and capture time as `ingest.normalise` reads them."""
    row = normalise(
        record.body, record.line.kind, Envelope(received_at_ms=0, record_id="x"), None, ZONE
    )
    reason = row.reason if isinstance(row, RejectedRow) else VALID
    return reason, row.camera_ip, row.captured_at_ms


def test_every_record_is_valid_or_rejected_exactly_as_the_truth_says(made: list[GeneratedRecord]) -> None:
    wrong = [(r.line, judged(r)[0]) for r in made if judged(r)[0] != r.line.expected]
    assert not wrong


def test_the_script_shows_every_misfortune_within_its_period(made: list[GeneratedRecord]) -> None:
    outcomes = Counter(record.line.expected for record in made)
    assert set(outcomes) >= {
        VALID, "all-unreadable", "not-json", "not-utf8", "not-an-object", "no-checkpoint",
        "no-time", "bad-time", "no-picture-or-feature",
    }  # fmt: skip
    assert {r.line.mishap for r in made} == {
        "", "leaf", "garbled", "wrong-clock", "lost-fields", "no-feature",
    }  # fmt: skip


def test_the_capture_minute_of_the_truth_is_the_one_in_the_record(made: list[GeneratedRecord]) -> None:
    for record in made:
        outcome, camera_ip, captured_at_ms = judged(record)
        if outcome == VALID:
            assert camera_ip == record.line.camera_ip
            assert captured_at_ms // 60_000 * 60_000 == record.line.minute_ms


def test_one_camera_lives_in_1970_and_its_records_are_valid(made: list[GeneratedRecord]) -> None:
    old = [r for r in made if r.line.minute_ms < 24 * 3_600_000]
    assert old
    assert {(r.line.expected, r.line.mishap) for r in old} == {(VALID, "wrong-clock")}
    assert len({r.line.camera_ip for r in old}) == 1


def test_the_expected_alarms_are_those_of_the_real_rules(
    made: list[GeneratedRecord], seed: int, tmp_path: Path
) -> None:
    city = assembly(seed)
    rules = rules_of(city, tmp_path, RegisteredPlaces(city.world.register))
    expected, found = [], []
    for record in made:
        if record.line.expected != VALID:
            assert not record.line.alarms
            continue
        kind, message = record.line.kind, msgspec.json.decode(record.body)
        attributes = rules.attributes(kind, message)
        found += [(record.line.n, rule) for rule in rules.match(kind, attributes, [START_MS])]
        expected += [(record.line.n, rule) for rule in record.line.alarms]
    assert sorted(expected) == sorted((n, _id(rule)) for n, rule in found)
    assert len({rule for _, rule in expected}) == 9, "every watched car and the face must have been seen"


def test_whoever_only_resembles_a_face_of_the_gallery_raises_no_alarm(
    made: list[GeneratedRecord], seed: int
) -> None:
    """Though that person resembles it more than all strangers do."""
    wanted = make_person(seed, WANTED_PERSON).feature
    scores: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for record in made:
        if record.line.expected == VALID and record.line.kind == "face":
            message = msgspec.json.decode(record.body)
            own = np.frombuffer(base64.b64decode(message["人脸特征"]), dtype="<f4")
            scores[record.line.alarms].append(float(own @ wanted))
    assert scores.keys() == {(), (f"list/city-{seed}-wanted",)}
    assert min(scores[f"list/city-{seed}-wanted",]) > 0.75
    assert 0.25 < max(scores[()]) < 0.55


def test_ordinary_cars_never_bear_a_watched_cars_kind_of_plate(made: list[GeneratedRecord], seed: int) -> None:
    plates = {
        msgspec.json.decode(r.body).get("车牌号码", "")
        for r in made
        if r.line.expected == VALID and r.line.kind == "vehicle" and not r.line.alarms
    }
    watched = assembly(seed).watched_cars.plates
    assert sum(len(plate) > 2 and plate[2] == "Y" for plate in plates - watched) == 0


def test_numbers_and_ids_are_never_given_twice(made: list[GeneratedRecord]) -> None:
    assert [r.line.n for r in made] == list(range(len(made)))
    assert len({r.line.id for r in made}) == len(made)


def test_the_same_settings_make_the_same_bytes() -> None:
    first = [(r.body, r.key) for r in assembly(4).until(START_MS + 5_000)]
    second = [(r.body, r.key) for r in assembly(4).until(START_MS + 5_000)]
    assert first == second


def test_a_city_that_watches_nothing_sends_the_same_records_and_expects_no_alarm() -> None:
    unwatched = assembly(1, watches=False)
    assert unwatched.rules == ()
    sent = list(unwatched.until(START_MS + SPAN_MS))
    watched = list(assembly(1).until(START_MS + SPAN_MS))
    assert [one.body for one in sent] == [one.body for one in watched]
    assert not any(one.line.alarms for one in sent)
    assert any(one.line.alarms for one in watched)


def test_without_misfortunes_everything_is_valid() -> None:
    made = list(assembly(3, misfortunes=False).until(START_MS + 30_000))
    assert {r.line.expected for r in made} == {VALID}


def test_unread_plates_have_no_key_and_read_ones_their_plate(made: list[GeneratedRecord]) -> None:
    keyless = 0
    for record in made:
        if record.line.kind != "vehicle" or record.line.expected != VALID:
            continue
        plate = msgspec.json.decode(record.body)["车牌号码"]
        readable = plate not in ("识别异常", "无车牌")
        assert record.key == (plate.encode() if readable else None)
        keyless += not readable
    assert 0 < keyless < 0.1 * len(made)


def test_some_server_records_carry_a_jpeg_and_smart_ones_none(made: list[GeneratedRecord]) -> None:
    pictured = [r for r in made if b'\xe5\x9b\xbe\xe7\x89\x87":"/9j/' in r.body]
    assert pictured
    assert all(r.camera.recognizer_ip for r in pictured)


def test_a_face_feature_is_a_unit_vector_of_float32(made: list[GeneratedRecord]) -> None:
    faces = [r for r in made if r.line.kind == "face" and r.line.expected == VALID]
    feature = base64.b64decode(msgspec.json.decode(faces[0].body)["人脸特征"])
    vector = np.frombuffer(feature, "<f4")
    assert vector.shape == (128,)
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5


def _id(rule: object) -> str:
    return rule if isinstance(rule, str) else rule.rule_id  # type: ignore[attr-defined]
