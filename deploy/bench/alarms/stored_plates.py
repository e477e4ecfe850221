"""What people ask of a store of ten million records: the preview of a pattern, a search for one,
and for a plate of which one character may differ.

In: how many records. Out: seconds of a preview of the last seven days, from its first piece to its
end; milliseconds of either search, p99. No pattern is asked for twice. Never: a store that was
warmed by the same question.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from alarm.preview import preview_piece
from bus.contracts.commands import WatchCommand
from bus.domain.rule_preview import PreviewTotals, days_back
from bus.domain.rule_values import PLATE
from bus.domain.tolerant_search import SearchTolerance
from bus.runtime.wall_clock import now_ms
from deploy.bench.filled_store import fill_store
from deploy.bench.plates.drawing import DIGITS, LETTERS
from deploy.errors import OperatorError
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordReader, RecordRow

PREVIEW, SEARCH, SEARCH_NEAR = "alarms-preview", "alarms-search", "alarms-search-near"
NAMES = (PREVIEW, SEARCH, SEARCH_NEAR)
RECORDS, PLATES = 10_000_000, 2_000_000
DAYS, DAYS_BACK = 30, 7
DAY_MS = 86_400_000
QUESTIONS = 100
_SIGNS = LETTERS + DIGITS
_BODY = '{{"车牌号码":"{}","备注":"{}"}}'
_FILLER = " " * 500
"""With it a body is as long as what a camera writes."""


def stored_figures(records: int = RECORDS, plates: int = PLATES) -> dict[str, float]:
    """One run, with a store of its own."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        url = f"sqlite://{Path(folder) / 'records.db'}"
        _fill(url, records, plates)
        with closing(open_store(url)) as reader:
            return {
                PREVIEW: _preview_s(reader),
                SEARCH: _search_ms(reader, islice(_patterns(3), QUESTIONS), ""),
                SEARCH_NEAR: _search_ms(reader, _passed(plates), "distance 1"),
            }


def _plate(number: int) -> str:
    """Of a car: another one for each number below two million; the last three are digits."""
    rest, tail = divmod(number * 7_919 % PLATES, 1_000)
    middle, first = divmod(rest, len(_SIGNS))
    letter, second = divmod(middle, len(_SIGNS))
    return f"浙{LETTERS[letter]}{_SIGNS[second]}{_SIGNS[first]}{tail:03d}"


def _fill(url: str, records: int, plates: int) -> None:
    start_ms, rng = now_ms() - DAYS * DAY_MS, random.Random(1)
    fill_store(url, records, lambda first, end: (
        _row(number, start_ms + DAYS * DAY_MS * number // records, rng, plates)
        for number in range(first, end)
    ))  # fmt: skip


def _row(number: int, captured_at_ms: int, rng: random.Random, plates: int) -> RecordRow:
    plate, camera = _plate(rng.randrange(plates)), rng.randrange(2_000)
    return RecordRow(
        record_id=f"bench-{number}", kind="vehicle", checkpoint_id=f"c{camera % 500}",
        district_id=f"d{camera % 10}", camera_ip=f"10.0.{camera // 250}.{camera % 250}",
        recognizer_ip="", captured_at_ms=captured_at_ms, received_at_ms=captured_at_ms,
        plate_number=plate, plate_key=plate, body=_BODY.format(plate, _FILLER).encode(),
    )  # fmt: skip


def _patterns(seed: int) -> Iterator[str]:
    """As a witness remembers them: the last three digits."""
    numbers = list(range(1_000))
    random.Random(seed).shuffle(numbers)
    return (f"*{number:03d}" for number in numbers)


def _preview_s(reader: RecordReader) -> float:
    """As `watch preview` asks: day by day, newest first, each to its last piece."""
    pattern = next(_patterns(2))
    rule = WatchCommand(rule_id="bench", op="put", version=1, match={PLATE: [pattern]})
    totals, begun_s = PreviewTotals(), time.monotonic()
    for day, asked in days_back(now_ms(), ZoneInfo("Asia/Shanghai"), DAYS_BACK):
        piece = preview_piece(reader, rule, asked)
        totals.add(day, piece)
        while piece.cursor:
            following = msgspec.structs.replace(asked, cursor=piece.cursor)
            piece = preview_piece(reader, rule, following)
            totals.add(day, piece)
    took_s = time.monotonic() - begun_s
    if not sum(totals.days.values()):
        raise OperatorError(f"the preview of {pattern} has found nothing")
    return took_s


def _passed(plates: int) -> list[str]:
    """Plates of cars that are there."""
    return [_plate(number) for number in random.Random(4).sample(range(plates), QUESTIONS)]


def _search_ms(
    reader: RecordReader, asked: Iterable[str], tolerance: SearchTolerance
) -> float:
    """The first page of each; fewer rows than a page are all that the store has."""
    took: list[float] = []
    for plate in asked:
        question = Query(kind="vehicle", plate=plate, tolerance=tolerance)
        begun_s = time.monotonic()
        rows, _ = reader.query(question, PageRequest(limit=100))
        took.append(1000 * (time.monotonic() - begun_s))
        if not rows:
            raise OperatorError(f"the search for {plate} has found nothing")
    return sorted(took)[QUESTIONS * 99 // 100]
