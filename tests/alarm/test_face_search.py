"""Which stored faces resemble one: the same as by a plain loop over all records, from either store."""

from __future__ import annotations

import itertools
import math
import random
import struct
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm import face_search
from alarm.face_search import face_piece
from bus.contracts.feature_models import MEASURES, FeatureModel, Measure
from bus.domain.command_error import CommandError
from bus.domain.face_search import BestFaces, FaceQuestion, face_in
from bus.domain.feature_models import FeatureModelSettings, FeatureSettings, with_threshold
from deploy.servers.hbase import Hbase
from ingest.store.open import open_store
from ingest.store.port import InvalidCursor, RecordReader, RecordRow, StoreBatch
from tests.alarm.lists.made_galleries import text_of

BEGIN_MS = 1_760_000_000_000
RECORDS, DIMENSIONS, MOST = 400, 8, 25
IN_HBASE = pytest.param("hbase", marks=[pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)])
MODELS = FeatureSettings(
    models={
        name: FeatureModelSettings(dimensions=DIMENSIONS, measure=measure, threshold=0.5)
        for name, measure in (("m/cosine", "cosine"), ("m/product", "inner product"), ("m/euclid", "euclid"))
    }
).table()
Face = tuple[float, ...]
Stored = tuple[RecordReader, list[RecordRow], random.Random]


def packed(face: Face) -> bytes:
    return struct.pack(f"<{len(face)}f", *face)


@pytest.fixture(params=["sqlite", IN_HBASE], scope="module")
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """Faces near a few people, of three models, at times that several share; and what is no face of them."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    people = [tuple(dice.gauss(0, 1) for _ in range(DIMENSIONS)) for _ in range(6)]
    rows = [_row(dice, number, dice.choice(people)) for number in range(RECORDS)]
    if request.param == "sqlite":
        url = f"sqlite://{tmp_path_factory.mktemp('faces')}/records.db"
    else:
        hbase: Hbase = request.getfixturevalue("hbase")
        url = f"hbase://{hbase.address}/faces{uuid.uuid4().hex[:8]}"
    with closing(open_store(url, "write")) as store:
        store.apply(StoreBatch(rows=rows), [])
    with closing(open_store(url, "read")) as reader:
        yield reader, rows, dice


def _row(dice: random.Random, number: int, person: Face) -> RecordRow:
    face = tuple(value + dice.gauss(0, 0.3) for value in person)
    body: dict[str, object] = {"卡口编号": "k", "人脸特征": text_of(packed(face)),
                               "特征模型": dice.choice(["m/cosine", "M/Product", " m/euclid"])}  # fmt: skip
    kind = "face" if number % 10 else "vehicle"
    odd = number % 23
    if odd < 6:  # not of its model, no feature, no text, none at all, of a model that nobody knows
        body["人脸特征"] = [text_of(packed(face)[4:]), text_of(bytes(4 * DIMENSIONS)), "识别异常", 7, None,
                        text_of(packed((math.nan, *face[1:])))][odd]  # fmt: skip
    elif odd == 6:
        body["特征模型"] = "nobody/1"
    return RecordRow(
        record_id=f"id-{number}", kind=kind, checkpoint_id="k", district_id="d", camera_ip="10.0.0.1",
        recognizer_ip="", captured_at_ms=BEGIN_MS + dice.randrange(150) * 1_000, received_at_ms=BEGIN_MS,
        body=msgspec.json.encode(body),
    )  # fmt: skip


def search(reader: RecordReader, asked: FaceQuestion, most: int = MOST) -> BestFaces[RecordRow]:
    best: BestFaces[RecordRow] = BestFaces(asked.model, most)
    while True:
        piece = face_piece(reader, asked)
        best.add(piece)
        if not piece.cursor:
            return best
        assert piece.since_ms == best.since_ms
        asked = msgspec.structs.replace(asked, cursor=piece.cursor)


def score_of(one: Face, other: Face, measure: Measure) -> float:
    if measure == "euclid":
        return math.dist(one, other)
    product = sum(map(float.__mul__, one, other))
    return product / (math.hypot(*one) * math.hypot(*other)) if measure == "cosine" else product


def by_a_loop(rows: list[RecordRow], asked: FaceQuestion) -> dict[str, float]:
    """The scores of all that are compared, by nothing of what is tested, but for what JSON is."""
    own = struct.unpack(f"<{DIMENSIONS}f", asked.feature)
    found: dict[str, float] = {}
    for row in rows:
        body = msgspec.json.decode(row.body)
        if row.kind != "face" or body["特征模型"].strip().lower() != asked.model.name:
            continue
        if not asked.from_ms <= row.captured_at_ms < (asked.until_ms or math.inf) or row.record_id == asked.record_id:
            continue
        try:
            face = struct.unpack(f"<{DIMENSIONS}f", msgspec.convert(body["人脸特征"], bytes))
        except (struct.error, msgspec.ValidationError):
            continue
        if not 0 < math.hypot(*face) < math.inf:
            continue
        found[row.record_id] = score_of(own, face, asked.model.measure)
    return found


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("size", [7, 5_000])
def test_a_search_finds_what_a_loop_over_all_records_finds_best_first(
    stored: Stored, measure: Measure, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of any size, in any time; scores as if each record were scored by itself."""
    reader, rows, dice = stored
    monkeypatch.setattr(face_search, "PIECE_ROWS", size)
    model = next(one for one in MODELS.values() if one.measure == measure and one.dimensions == DIMENSIONS)
    faces = [row for row in rows if is_of(row, model)]
    times = sorted(row.captured_at_ms for row in rows)
    spans = [(0, 0), (times[100], 0), (0, times[300]), (times[50], times[250])]
    thresholds = {"cosine": (0.8, -1.0), "inner product": (4.0, -1e6), "euclid": (1.0, 1e6)}[measure]
    for (from_ms, until_ms), threshold in itertools.product(spans, thresholds):
        while True:  # a score beside the threshold may be on either side of it, as it is rounded
            row = dice.choice(faces)
            feature, known = face_in(row.body, MODELS)
            asked = FaceQuestion(
                feature=feature, model=with_threshold(known, threshold), from_ms=from_ms, until_ms=until_ms,
                record_id=row.record_id,
            )  # fmt: skip
            compared = by_a_loop(rows, asked)
            if all(abs(score - threshold) > 2e-6 for score in compared.values()):
                break
        sign = -1 if measure == "euclid" else 1
        expected = {one: score for one, score in compared.items() if sign * score > sign * threshold}
        best = search(reader, asked)
        assert (best.count, len(best.hits)) == (len(expected), min(MOST, len(expected)))
        scores = [hit.score for hit in best.hits]
        assert scores == sorted(scores, reverse=measure != "euclid")
        ranked = sorted(expected.values(), reverse=measure != "euclid")[:MOST]
        assert scores == pytest.approx(ranked, abs=2e-6)
        for hit in best.hits:
            assert hit.score == pytest.approx(expected[hit.row.record_id], abs=2e-6)
        own = [one for one in rows if one.kind == "face" and from_ms <= one.captured_at_ms < (until_ms or math.inf)]
        assert (best.read, best.compared) == (len(own), len(compared))
        assert threshold == thresholds[0] or expected == compared, "the wide one lets all of them through"


def is_of(row: RecordRow, model: FeatureModel) -> bool:
    try:
        return row.kind == "face" and face_in(row.body, MODELS)[1] == model
    except CommandError:
        return False


def test_of_equal_scores_the_newer_one_stands_first(tmp_path: Path) -> None:
    body = msgspec.json.encode({"人脸特征": text_of(packed((1.0,) * DIMENSIONS)), "特征模型": "m/cosine"})
    rows = [
        RecordRow(record_id=f"id-{at}", kind="face", checkpoint_id="k", district_id="d", camera_ip="", recognizer_ip="",
                  captured_at_ms=BEGIN_MS + at, received_at_ms=BEGIN_MS, body=body) for at in range(9)
    ]  # fmt: skip
    url = f"sqlite://{tmp_path}/records.db"
    with closing(open_store(url, "write")) as store:
        store.apply(StoreBatch(rows=rows), [])
    feature, model = face_in(body, MODELS)
    with closing(open_store(url, "read")) as reader:
        best = search(reader, FaceQuestion(feature=feature, model=model, record_id="id-8"), most=3)
        with pytest.raises(InvalidCursor):
            face_piece(reader, FaceQuestion(feature=feature, model=model, cursor="x"))
    assert [hit.row.record_id for hit in best.hits] == ["id-7", "id-6", "id-5"]
    assert (best.count, best.read, best.compared, best.since_ms) == (8, 9, 8, BEGIN_MS)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "no_feature"), ({"特征模型": "m/cosine"}, "no_feature"), ({"人脸特征": "AAAA"}, "no_feature"),
        ({"人脸特征": "识别异常", "特征模型": "m/cosine"}, "no_feature"),
        ({"人脸特征": "AAAA", "特征模型": "m/cosine"}, "feature"),
        ({"人脸特征": "AAAA", "特征模型": "nobody/1"}, "unknown_model"), ([], "no_feature"),
    ],
)  # fmt: skip
def test_a_record_whose_face_cannot_be_compared_says_why(body: object, code: str) -> None:
    with pytest.raises(CommandError) as refused:
        face_in(msgspec.json.encode(body), MODELS)
    assert refused.value.code == code


@pytest.mark.parametrize(("name", "threshold"), [("m/cosine", 1.5), ("m/cosine", math.nan), ("m/euclid", -1.0)])
def test_a_threshold_that_no_score_can_have_is_refused(name: str, threshold: float) -> None:
    with pytest.raises(CommandError, match="no score can be near"):
        with_threshold(MODELS[name.upper()], threshold)


def test_nothing_is_loaded_for_a_piece_without_faces(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/records.db"
    with closing(open_store(url, "write")):
        pass
    asked = FaceQuestion(feature=packed((1.0,) * DIMENSIONS), model=MODELS["M/COSINE"])
    with closing(open_store(url, "read")) as reader:
        assert face_piece(reader, asked) == ([], 0, 0, 0, "")


