"""Galleries as they are matched: a leaf of a tree, a rule of their own, an alarm with its face."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alarm.lists.face_table import FaceTable
from alarm.lists.table_layout import TableError
from alarm.rules import attributes_of, compile_rules, verdict
from alarm.rules.explain import explain
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.references import References
from alarm.rules.ruleset import RuleSet
from alarm.rules.verdict import matched_faces
from bus.contracts.alarms import Candidate
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import OnList
from bus.contracts.feature_models import MEASURES, FeatureModel, Measure
from bus.domain.expressions.parse import parse
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import ExpressionError
from tests.alarm.lists.made_galleries import EIGHT, feature, made_gallery, text_of, unit
from tests.alarm.lists.made_lists import VERSION

PROJECT = Path(__file__).parents[3]
KIND = "face"
DIMENSIONS = 4
WANTED, STRANGER = feature(unit(8, 1)), feature(-unit(8, 2))
small = st.integers(-3, 3).map(float)
vectors = st.lists(small, min_size=DIMENSIONS, max_size=DIMENSIONS).filter(any)


def put_text(text: str, rule_id: str = "r") -> WatchCommand:
    return WatchCommand(
        rule_id=rule_id, op="put", version=1, name=rule_id, kind=KIND, where=parse(text, KIND)
    )


def message_of(value: bytes, model: str = EIGHT.name, **more: object) -> dict[str, object]:
    return {"人脸特征": text_of(value), "特征模型": model, **more}


def met(rules: RuleSet, message: Mapping[str, object]) -> list[str]:
    return [rule.rule_id for rule in rules.match(KIND, attributes_of(KIND, message))]


def galleries_of(*found: FaceGallery) -> References:
    return References(galleries={one.list_id: one for one in found})


def noisy(value: bytes, much: float, seed: int = 5) -> bytes:
    own = np.frombuffer(value, dtype="<f4")
    return feature(own + much * unit(len(own), seed))


def brute_force(
    faces: Mapping[str, bytes], reading: bytes, measure: Measure
) -> tuple[str, float]:
    """Each face by itself, in 64 bits, from what is written."""
    own = np.frombuffer(reading, dtype="<f4").astype(np.float64)
    found: list[tuple[float, str, float]] = []
    for entry, value in faces.items():
        row = np.frombuffer(value, dtype="<f4").astype(np.float64)
        score = float(row @ own)
        if measure == "cosine":
            score /= float(np.linalg.norm(row) * np.linalg.norm(own))
        if measure == "euclid":
            score = float(np.linalg.norm(row - own))
        found.append((score if measure == "euclid" else -score, entry, score))
    return min(found)[1], min(found)[2]


@settings(max_examples=150, deadline=None)
@given(
    base=st.lists(vectors, max_size=12),
    added=st.lists(vectors, max_size=4),
    gone=st.sets(st.integers(0, 11)),
    replaced=st.booleans(),
    readings=st.lists(vectors, min_size=1, max_size=7),
    measure=st.sampled_from(MEASURES),
)
def test_a_batch_finds_what_scoring_each_face_by_itself_finds(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[list[float]],
    added: list[list[float]],
    gone: set[int],
    replaced: bool,
    readings: list[list[float]],
    measure: Measure,
) -> None:
    """Also where faces were added, replaced and removed since the base, and alike ones abound."""
    model = FeatureModel(name="four/1", dimensions=DIMENSIONS, measure=measure, threshold=0.5)
    faces = {f"b{at}": feature(own) for at, own in enumerate(base)}
    newer = {
        ("b" if replaced else "a") + str(at): feature(own) for at, own in enumerate(added)
    }
    removed = {f"b{at}" for at in gone} - newer.keys()
    gallery = made_gallery(
        tmp_path_factory.mktemp("faces"), "g", faces, model=model, added=newer, removed=removed
    )
    in_force = {entry: own for entry, own in faces.items() if entry not in removed} | newer
    records = [
        attributes_of(KIND, message_of(feature(own), model.name)) for own in readings
    ]
    gallery.prepare(records)
    for attributes, own in zip(records, readings, strict=True):
        match = gallery.find(attributes)
        if not in_force:
            assert match is None
            continue
        _, score = brute_force(in_force, feature(own), measure)
        assert match is not None
        assert match.score == pytest.approx(score, abs=2e-6)
        _, own_score = brute_force(
            {match.line.entry: in_force[match.line.entry]}, feature(own), measure
        )
        assert own_score == pytest.approx(score, abs=2e-6), "the face that it names is the nearest"
    assert gallery.line_count == len(in_force)


def test_many_faces_in_several_blocks_are_hit_as_each_by_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((9_000, 8)).astype("<f4")
    faces = {f"p{at}": row.tobytes() for at, row in enumerate(rows)}
    gallery = made_gallery(tmp_path, "g", faces)
    unit_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for reading in rng.standard_normal((40, 8)).astype("<f4"):
        match = gallery.find(attributes_of(KIND, message_of(reading.tobytes())))
        own = reading / np.linalg.norm(reading)
        assert match is not None
        assert match.score == pytest.approx(float((unit_rows @ own).max()), abs=1e-5)
        together = unit_rows[int(match.line.entry[1:])] @ own
        assert match.score == pytest.approx(float(together), abs=1e-5)


def test_a_face_resembles_by_the_threshold_of_the_rule_else_of_the_gallery(tmp_path: Path) -> None:
    references = galleries_of(made_gallery(tmp_path, "wanted", {"P7": WANTED}))
    near, far = noisy(WANTED, 0.3), noisy(WANTED, 1.2)
    rules = compile_rules(
        [
            put_text("face_feature on wanted", "usual"),
            put_text("face_feature on wanted threshold 0.99", "strict"),
            put_text("face_feature on wanted threshold 0.1", "loose"),
            put_text("face_feature not on wanted", "not"),
            put_text("face_feature on nobody", "missing"),
            put_text("not face_feature on nobody", "not-missing"),
        ],
        references,
    )
    assert met(rules, message_of(WANTED)) == ["list/wanted", "loose", "strict", "usual"]
    assert met(rules, message_of(near)) == ["list/wanted", "loose", "usual"]
    assert met(rules, message_of(far)) == ["loose", "not"]


@pytest.mark.parametrize(
    "message",
    [
        message_of(WANTED, "another"),
        message_of(WANTED, ""),
        message_of(WANTED[:-4]),
        {"人脸特征": "not base64!", "特征模型": EIGHT.name},
        {"人脸特征": "不可识别", "特征模型": EIGHT.name},
        message_of(feature([float("nan")] * 8)),
        message_of(feature([0.0] * 8)),
        {},
    ],
)
def test_what_is_no_feature_of_the_model_meets_neither_the_leaf_nor_its_negation(
    tmp_path: Path, message: dict[str, object]
) -> None:
    references = galleries_of(made_gallery(tmp_path, "wanted", {"P7": WANTED}))
    rules = compile_rules([put_text("face_feature not on wanted threshold -1", "not")], references)
    rules.apply(put_text("face_feature on wanted threshold -1", "yes"))
    assert met(rules, message) == []


def test_faces_that_no_gallery_can_be_compared_with_are_counted(tmp_path: Path) -> None:
    """Once each, whatever the number of galleries; not where no rule asks for one."""
    messages = [
        message_of(WANTED), message_of(WANTED, "another"), message_of(WANTED[:-4]), message_of(WANTED, ""),
        {"人脸特征": "识别异常", "特征模型": EIGHT.name}, {},
    ]  # fmt: skip
    records = [attributes_of(KIND, one) for one in messages]
    references = galleries_of(
        made_gallery(tmp_path, "wanted", {"P7": WANTED}), made_gallery(tmp_path, "lost", {"P8": STRANGER})
    )
    rules = compile_rules([], references)
    assert rules.prepare(KIND, records) == {"other model": 2, "no feature": 1}
    staff = made_gallery(tmp_path, "staff", {"P7": WANTED}, alarms=False)
    assert compile_rules([], galleries_of(staff)).prepare(KIND, records) == {}


def test_the_name_of_a_model_is_compared_as_other_values_are(tmp_path: Path) -> None:
    rules = compile_rules([], galleries_of(made_gallery(tmp_path, "wanted", {"P7": WANTED})))
    assert met(rules, message_of(WANTED, " EIGHT/1")) == ["list/wanted"]


def test_base64_is_compared_as_it_is_written(tmp_path: Path) -> None:
    """Other values are compared in capitals, which base64 would not survive."""
    mixed = next(
        own for own in (feature(unit(8, seed)) for seed in range(50))
        if text_of(own).upper() != text_of(own)
    )  # fmt: skip
    rules = compile_rules([], galleries_of(made_gallery(tmp_path, "wanted", {"P7": mixed})))
    assert met(rules, message_of(mixed)) == ["list/wanted"]


def candidate(rules: RuleSet, rule_id: str, message: Mapping[str, object]) -> Candidate:
    attributes = attributes_of(KIND, message)
    return Candidate(
        rule_id=rule_id, rule_version=1, record_id="1" * 32, kind=KIND, received_at_ms=VERSION,
        captured_at_ms=VERSION, record=msgspec.json.encode(message).decode(),
        faces=matched_faces(rules.rules[rule_id], attributes, rules.references),
    )  # fmt: skip


def test_an_alarm_names_gallery_face_score_and_what_is_known_of_them(tmp_path: Path) -> None:
    rules = compile_rules([], galleries_of(made_gallery(tmp_path, "wanted", {"P7": WANTED})))
    alarm = verdict(rules, candidate(rules, "list/wanted", message_of(noisy(WANTED, 0.3))), VERSION)
    assert alarm is not None
    assert alarm.resembled is not None
    face = alarm.resembled
    assert (face.list_id, face.name, face.version) == ("wanted", "Gallery wanted", VERSION)
    assert (face.entry, face.note, face.line, face.list_date) == ("P7", "note 2", 2, "2026-03-01")
    assert (face.threshold, face.model, face.measure) == (0.8, "eight/1", "cosine")
    assert 0.8 <= face.score < 1
    assert alarm.target == "list/wanted/P7", "a second capture of the face is of the same target"
    assert "face_feature" not in alarm.attributes, "the feature stands in the record once"


class _Searched(Exception):
    """Somebody has searched."""


class _Unsearchable(FaceTable):
    def nearest(self, *_: object) -> list[tuple[int, float] | None]:  # type: ignore[override]
        raise _Searched


def without_search(gallery: FaceGallery) -> FaceGallery:
    table = gallery.table
    assert isinstance(table, FaceTable)
    return FaceGallery(
        gallery.record, gallery.model, _Unsearchable(table.path, table.sha256), gallery.added,
        gallery.removed,
    )  # fmt: skip


def test_who_is_given_the_proof_of_the_version_in_force_searches_nothing(tmp_path: Path) -> None:
    gallery = made_gallery(
        tmp_path, "wanted", {"P7": WANTED, "P8": STRANGER}, added={"P9": feature(unit(8, 9))}
    )
    rules = compile_rules([], galleries_of(gallery))
    for own, entry in ((WANTED, "P7"), (feature(unit(8, 9)), "P9")):
        found = candidate(rules, "list/wanted", message_of(noisy(own, 0.2)))
        at_dispatcher = compile_rules([], galleries_of(without_search(gallery)))
        alarm = verdict(at_dispatcher, found, VERSION)
        assert alarm is not None
        assert alarm.resembled is not None
        assert (alarm.resembled.entry, alarm.resembled.score) == (entry, found.faces[0].score)


def test_a_proof_is_checked_and_one_of_another_version_is_not_believed(tmp_path: Path) -> None:
    before = made_gallery(tmp_path, "wanted", {"P7": WANTED})
    found = candidate(
        compile_rules([], galleries_of(before)), "list/wanted", message_of(noisy(WANTED, 0.2))
    )
    removed = made_gallery(tmp_path, "wanted", {"P7": WANTED}, removed=["P7"], version=VERSION + 1)
    assert verdict(compile_rules([], galleries_of(removed)), found, VERSION) is None
    other = made_gallery(tmp_path, "wanted", {"P7": STRANGER})
    assert verdict(compile_rules([], galleries_of(other)), found, VERSION) is None
    unproved = msgspec.structs.replace(found, faces=())
    alarm = verdict(compile_rules([], galleries_of(before)), unproved, VERSION)
    assert alarm is not None
    assert alarm.resembled is not None, "of an earlier version's matcher"


def test_a_gallery_that_changes_is_what_the_next_record_is_compared_with(tmp_path: Path) -> None:
    rules = compile_rules([put_text("face_feature on wanted and gender = 男")])
    message = message_of(WANTED, 性别="男")
    assert met(rules, message) == []
    first = made_gallery(tmp_path, "wanted", {"P1": STRANGER})
    assert rules.refer_to(galleries_of(first))
    assert met(rules, message) == []
    second = made_gallery(tmp_path, "wanted", {"P1": WANTED}, version=VERSION + 1)
    assert rules.refer_to(galleries_of(second))
    assert met(rules, message) == ["list/wanted", "r"]
    assert not rules.refer_to(galleries_of(second))
    assert rules.refer_to(References())
    assert met(rules, message) == []


def test_a_gallery_that_rules_only_refer_to_is_no_rule(tmp_path: Path) -> None:
    gallery = made_gallery(tmp_path, "staff", {"P7": WANTED}, alarms=False)
    rules = compile_rules([put_text("face_feature not on staff")], galleries_of(gallery))
    assert met(rules, message_of(WANTED)) == []
    assert met(rules, message_of(STRANGER)) == ["r"]


def test_rules_travel_to_workers_with_the_name_of_a_gallery_and_not_its_faces(
    tmp_path: Path,
) -> None:
    faces = {f"p{at}": feature(unit(8, at)) for at in range(3_000)}
    rules = compile_rules([], galleries_of(made_gallery(tmp_path, "wanted", faces)))
    sent = pickle.dumps(rules)
    assert len(sent) < 10_000
    assert met(pickle.loads(sent), message_of(faces["p77"])) == ["list/wanted"]


def test_explaining_names_the_nearest_face_and_a_gallery_that_is_not_in_force(
    tmp_path: Path,
) -> None:
    references = galleries_of(made_gallery(tmp_path, "wanted", {"P7": WANTED}))
    attributes = attributes_of(KIND, message_of(noisy(WANTED, 1.2)))
    tree = parse("face_feature on wanted or face_feature on nobody", KIND)
    _, near, missing = explain(tree, attributes, (), references)
    assert near.answer is False
    assert near.face is not None
    assert near.face.line.entry == "P7"
    assert missing.answer is None
    assert missing.is_missing


_SCORING_PROCESS = """
import json, pickle, sys
import numpy
from threadpoolctl import threadpool_info
def threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
before = threads()
with open(sys.argv[1], "rb") as file:
    gallery, attributes = pickle.load(file)
print(json.dumps([before, gallery.find(attributes).line.entry, threads()]))
"""


@pytest.mark.slow
def test_a_process_that_scores_faces_multiplies_in_one_thread(tmp_path: Path) -> None:
    """As an executor: NumPy was loaded by something else, and the gallery comes pickled."""
    gallery = made_gallery(tmp_path, "wanted", {"P7": WANTED, "P8": STRANGER})
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((gallery, attributes_of(KIND, message_of(WANTED)))))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(PROJECT)}
    found = subprocess.run(
        [sys.executable, "-c", _SCORING_PROCESS, str(sent)], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    before, entry, after = json.loads(found.stdout)
    assert (entry, after) == ("P7", [1])
    assert before == [min(2, len(os.sched_getaffinity(0)))], "it would have had more"


def test_a_base_with_what_is_no_feature_of_its_model_is_not_built(tmp_path: Path) -> None:
    """Whoever wrote its chunks: the gallery is told to have a problem, and others go on."""
    for wrong in (WANTED[:-4], feature([float("nan")] * 8), feature([0.0] * 8)):
        with pytest.raises(TableError, match=r"P8 has no feature of eight/1"):
            made_gallery(tmp_path, "wanted", {"P7": WANTED, "P8": wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_table_is_not_opened(tmp_path: Path) -> None:
    table = made_gallery(tmp_path, "wanted", {"P7": WANTED}).table
    assert isinstance(table, FaceTable)
    whole = bytearray(table.path.read_bytes())
    whole[600] ^= 1
    other = tmp_path / "other.faces"
    other.write_bytes(whole)
    with pytest.raises(TableError, match="delete it"):
        FaceTable.open(other)
    other.write_bytes(whole[:100])
    with pytest.raises(TableError, match="no table of faces"):
        FaceTable.open(other)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("face_feature = abc", "feature_on_gallery"),
        ("face_feature like 'a*'", "feature_on_gallery"),
        ("face_feature resembles abc", "feature_on_gallery"),
        ("gender on wanted", "lists_of_plates"),
    ],
)
def test_a_feature_is_compared_with_galleries_only(text: str, code: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text, KIND)
    assert error.value.code == code


def test_a_list_of_plates_takes_no_threshold() -> None:
    with pytest.raises(ExpressionError) as error:
        parse("plate_number on stolen threshold 0.5", "vehicle")
    assert error.value.code == "plate_threshold"


def test_a_vehicle_has_no_feature() -> None:
    with pytest.raises(ExpressionError) as error:
        parse("face_feature on wanted", "vehicle")
    assert error.value.code == "no_such_attribute"


def test_the_text_of_a_threshold_is_read_back() -> None:
    tree = parse("face_feature on wanted threshold 0.65 and gender = 男", KIND)
    assert to_text(tree) == "face_feature on wanted threshold 0.65 and gender = 男"
    assert parse(to_text(tree), KIND) == tree
    assert OnList(attribute="face_feature", list_id="wanted", threshold=0.65) in tree.parts  # type: ignore[union-attr]
