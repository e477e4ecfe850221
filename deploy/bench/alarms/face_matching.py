"""What a gallery of 100,000 faces costs a record: from the bytes of its message to candidates.

In: a seed. Out: milliseconds of this process per record, in batches of fifty and alone, with one
thread of BLAS; what the gallery takes of a machine. One record in a hundred is of a person of the
gallery. Never: a feature twice: what was answered is remembered.
"""

from __future__ import annotations

import base64
import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from alarm.lists.face_table import FaceTable, build_face_table
from alarm.rules import RuleSet, compile_rules
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.face_scores import Rows
from alarm.rules.references import References
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import GALLERY_KIND, FaceLine, ListRecord
from bus.contracts.topics import DATA_FACE
from deploy.bench.alarms.list_memory import memory_of
from deploy.errors import OperatorError
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage

FACES, RECORDS, ALONE, BATCH, WARM_UP = 100_000, 2_000, 200, 50, 50
SHARE_WANTED = 100
MODEL = FeatureModel(name="bench/512", dimensions=512, measure="cosine", threshold=0.6)
NOISE = 0.3  # of a capture, beside the face's own length: 0.96 of it remains
AT_MS, ZONE = 1_772_330_400_000, "Asia/Shanghai"

TOGETHER, BY_ITSELF, MACHINE = "alarms-faces-batch", "alarms-faces-alone", "alarms-faces-machine"
NAMES = (TOGETHER, BY_ITSELF, MACHINE)


def face_figures(seed: int, faces: int = FACES, records: int = RECORDS) -> dict[str, float]:
    """One run of all of them, on one gallery."""
    rng = np.random.default_rng(seed)
    people = _unit_rows(rng, faces)
    with TemporaryDirectory(prefix="databus-bench-") as folder:
        path = Path(folder) / "base.faces"
        build_face_table(_lines(people), path, MODEL)
        record = ListRecord(
            list_id="wanted", op="put", version=1, name="wanted", kind=GALLERY_KIND, model=MODEL
        )
        gallery = FaceGallery(record, MODEL, FaceTable.open(path), {}, frozenset())
        rules = compile_rules([], References(galleries={"wanted": gallery}))
        messages = list(_messages(rng, people, WARM_UP + records + ALONE))
        del people
        _found(rules, messages[:WARM_UP], BATCH)
        batched, alone = messages[WARM_UP : WARM_UP + records], messages[WARM_UP + records :]
        together_ms, alone_ms = _record_ms(rules, batched, BATCH), _record_ms(rules, alone, 1)
        machine_mb, _ = memory_of(path)
    return {TOGETHER: together_ms, BY_ITSELF: alone_ms, MACHINE: machine_mb}


def _record_ms(rules: RuleSet, messages: Sequence[StreamMessage], batch: int) -> float:
    gc.collect()
    gc.freeze()  # as Spark's driver and its workers do
    begin = time.process_time()
    found = _found(rules, messages, batch)
    used_s = time.process_time() - begin
    gc.unfreeze()
    if found != len(messages) // SHARE_WANTED:
        raise OperatorError(f"{found} faces are found where {len(messages) // SHARE_WANTED} pass")
    return used_s / len(messages) * 1e3


def _found(rules: RuleSet, messages: Sequence[StreamMessage], batch: int) -> int:
    begins = range(0, len(messages), batch)
    return sum(
        1 for begin in begins for _ in candidates(rules, messages[begin : begin + batch], ZONE)
    )


def _unit_rows(rng: np.random.Generator, count: int) -> Rows:
    rows = rng.standard_normal((count, MODEL.dimensions), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _lines(people: Rows) -> Iterator[FaceLine]:
    for number, row in enumerate(people):
        feature = row.astype("<f4").tobytes()
        yield FaceLine(number + 2, f"P{number}", f"case {number % 997}", "2026-03-01", feature)


def _messages(rng: np.random.Generator, people: Rows, count: int) -> Iterator[StreamMessage]:
    """Strangers, and each hundredth somebody of the gallery."""
    noises = _unit_rows(rng, count)
    for number, noise in enumerate(noises):
        is_wanted = number % SHARE_WANTED == SHARE_WANTED - 1
        person = people[rng.integers(len(people))]
        feature = person + np.float32(NOISE) * noise if is_wanted else noise
        message = {
            "卡口编号": f"330100-{number % 200:03d}", "抓拍时间": "2026-03-01 10:00:00.250",
            "抓拍设备地址": f"10.1.0.{number % 250}", "记录编号": f"{number:012d}", "性别": "男",
            "年龄下限": 20, "年龄上限": 30, "特征模型": MODEL.name,
            "人脸特征": base64.b64encode(feature.astype("<f4").tobytes()).decode(),
            "人脸图片地址": f"/pictures/{number:012d}.jpg",
        }  # fmt: skip
        value = msgspec.json.encode(message)
        yield StreamMessage(DATA_FACE, 0, number, AT_MS, value, record_id=f"r{number}")
