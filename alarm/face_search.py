"""Which stored faces resemble one: records compared as galleries are.

In: a feature and its model, a reader of stored records. Out: those whose score reaches the
threshold, a bounded piece at a time, newest first, so that whoever asks can show how far it is and
stop. Never: a feature of another model; another answer than scoring each record by itself gives.
"""

from __future__ import annotations

from bus.contracts.plate_lists import GALLERY_KIND
from bus.domain.face_search import FaceHit, FacePiece, FaceQuestion, feature_in
from ingest.store.port import PageRequest, Query, RecordReader, RecordRow

PIECE_ROWS = 5_000
"""Looked at by one piece: some tenths of a second of a store on one machine."""


def face_piece(reader: RecordReader, asked: FaceQuestion) -> FacePiece[RecordRow]:
    """The next piece. Raises `InvalidCursor`, `StoreError`."""
    query = Query(
        kind=GALLERY_KIND, captured_from_ms=asked.from_ms, captured_until_ms=asked.until_ms
    )
    rows, cursor = reader.query(query, PageRequest(limit=PIECE_ROWS, cursor=asked.cursor))
    found = [
        (row, feature) for row in rows
        if row.record_id != asked.record_id
        and (feature := feature_in(row.body, asked.model)) is not None
    ]  # fmt: skip
    since_ms = rows[-1].captured_at_ms if rows else 0
    return FacePiece(_hits(found, asked), len(rows), len(found), since_ms, cursor)


def _hits(found: list[tuple[RecordRow, bytes]], asked: FaceQuestion) -> list[FaceHit[RecordRow]]:
    if not found:
        return []
    from alarm.rules.face_scores import rows_of, scores  # loads NumPy, on one thread of BLAS

    model = asked.model
    features = rows_of([feature for _, feature in found], model.dimensions, model.measure)
    reading = rows_of([asked.feature], model.dimensions, model.measure)[0]
    scored = zip(found, scores(features, reading, model.measure).tolist(), strict=True)
    return [FaceHit(row, score) for (row, _), score in scored if model.is_hit(score)]
