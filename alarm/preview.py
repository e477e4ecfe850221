"""What a rule would have hit: stored records judged as the watch list judges new ones.

In: a rule that is not in force, a reader of stored records, a window of capture times. Out: counts
by checkpoint, a bounded piece at a time, newest first, so that whoever asks can show how far it is
and stop. Never: a record itself; the validity of the rule, which is about times to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from alarm.rules.condition import RuleCondition, condition_of
from alarm.rules.references import References
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.fuzzy_plate import is_fuzzy
from bus.domain.kinds import WIRE_KEYS
from bus.domain.plate_search import fits
from bus.domain.plates import plate_form
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from bus.domain.rule_preview import PreviewPiece, PreviewRequest, check_window
from bus.domain.rule_values import PLATE, attributes_from
from ingest.store.port import InvalidCursor, PageRequest, Query, RecordReader, RecordRow

PIECE_ROWS = 5_000
"""Looked at by one piece: about a tenth of a second of a store on one machine."""


def preview_piece(
    reader: RecordReader,
    rule: WatchCommand,
    asked: PreviewRequest,
    places: RegisteredPlaces = NO_PLACES,
    confusion: ConfusionTable = PACKAGED,
) -> PreviewPiece:
    """The next piece; no list is known. Raises `InvalidWindow`, `InvalidCursor`, `StoreError`."""
    check_window(asked)
    questions = _questions(rule, asked)
    at, cursor = _place(asked.cursor, len(questions))
    rows, following = reader.query(questions[at], PageRequest(limit=PIECE_ROWS, cursor=cursor))
    earlier = [one.plate for one in questions[:at]]
    new = (row for row in rows if not _is_of_any(row, earlier))
    condition = condition_of(rule, References(places=places, confusion=confusion))
    hits = Counter(row.checkpoint_id for row in _met(condition, rule.kind, new))
    return PreviewPiece(hits=dict(hits), read=len(rows), cursor=_next(at, following, questions))


def _questions(rule: WatchCommand, asked: PreviewRequest) -> list[Query]:
    """One finds all that a rule may meet, and what a store can find by its index no more than that:
    the plates of a rule are looked for as those of a search."""
    window = Query(
        kind=rule.kind, captured_from_ms=asked.from_ms, captured_until_ms=asked.until_ms
    )
    plates = rule.match.get(PLATE, [])
    if any(map(is_fuzzy, plates)):  # no index of a store knows misreadings
        return [window]
    return [msgspec.structs.replace(window, plate=plate) for plate in plates] or [window]


def _place(cursor: str, count: int) -> tuple[int, str]:
    """Which question is next, and where it goes on."""
    number, _, following = cursor.partition(":")
    if not cursor:
        return 0, ""
    if not (number.isascii() and number.isdigit() and len(number) < 4 and int(number) < count):
        raise InvalidCursor("cursor: none of this preview")
    return int(number), following


def _next(at: int, following: str, questions: list[Query]) -> str:
    if following:
        return f"{at}:{following}"
    return f"{at + 1}:" if at + 1 < len(questions) else ""


def _is_of_any(row: RecordRow, plates: Iterable[str]) -> bool:
    """Whether an earlier question has found it."""
    form = plate_form(row.plate_number)
    return any(fits(plate, form) for plate in plates)


def _met(condition: RuleCondition, kind: str, rows: Iterable[RecordRow]) -> Iterable[RecordRow]:
    keys = {name: WIRE_KEYS[kind][name] for name in condition.attributes}
    for row in rows:
        message = msgspec.json.decode(row.body)
        found = attributes_from((name, message.get(key)) for name, key in keys.items())
        if condition.is_met(found, row.times_ms):
            yield row
