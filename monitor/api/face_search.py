"""Stored faces that resemble the one of a record, or of a gallery's entry, best first; asked for a
piece at a time, so that whoever asks shows how far it is and may stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from bus.domain.command_error import CommandError
from bus.domain.face_search import BestFaces, FacePiece, FaceQuestion, check_subject, face_in
from bus.domain.feature_models import with_threshold
from ingest.store.port import PageRequest, RecordRow
from ingest.store.port import Query as Question
from monitor.accounts.roles import ConsoleOperation
from monitor.api.access import allow, json_response
from monitor.api.asking import asking
from monitor.api.parameters import Cursor, ShortText, moment
from monitor.api.services import ConsoleServices
from monitor.api.views import Row, record_row
from monitor.questions.question import Asker, PersonQuestion, question_about

MOST_READ = 200_000
"""Records that one search looks at, in some ten seconds: who asks for more goes on from there."""
MAX_READ = 1_000_000
MOST_HITS = 1_000
USUAL_HITS = 100


class FaceSubject(msgspec.Struct, frozen=True, kw_only=True):
    """Whose face: of a stored record, or of an entry of a gallery; and where it is looked for."""

    record: str = ""
    gallery: str = ""
    entry: str = ""
    from_ms: int = 0
    until_ms: int = 0
    threshold: float | None = None

    def asked_by(self, asker: Asker) -> PersonQuestion:
        """As it is kept."""
        said = msgspec.structs.asdict(self)
        return question_about(asker, "faces", said, naming="record" if self.record else "entry")


class NoFace(CommandError):
    """There is no such record, or no such entry in a gallery in force."""


async def face_question(
    services: ConsoleServices, asked: PersonQuestion, subject: FaceSubject
) -> FaceQuestion:
    """The first piece of a search. Raises `CommandError`, `QueryUnavailable`, and what
    `QuestionPort.note` does."""
    check_subject(subject.record, subject.gallery, subject.entry)
    await services.questions.note(asked)
    if subject.record:
        row = await stored_record(services, asked, subject.record)
        if row is None:
            raise NoFace("record", "no such record", "not_found")
        feature, model = face_in(row.body, services.feature_models)
    else:
        found = await services.lists.run(lambda r: r.face(subject.gallery, subject.entry))
        if found is None:
            raise NoFace("entry", "no such entry in a gallery in force", "not_found")
        feature, model = found
    return FaceQuestion(
        feature=feature, model=with_threshold(model, subject.threshold), from_ms=subject.from_ms,
        until_ms=subject.until_ms, record_id=subject.record,
    )  # fmt: skip


async def stored_record(
    services: ConsoleServices, asked: PersonQuestion, record_id: str
) -> RecordRow | None:
    """One record. Raises `QueryUnavailable`, and what `QuestionPort.note` does."""
    rows, _ = await services.questions.records(
        asked, lambda r: r.query(Question(record_id=record_id), PageRequest(limit=1))
    )
    return rows[0] if rows else None


async def face_pieces(
    services: ConsoleServices, asked: PersonQuestion, question: FaceQuestion
) -> AsyncGenerator[FacePiece[RecordRow], None]:
    """All pieces from `question` on, at the lowest priority. Raises `QueryUnavailable`,
    `InvalidCursor`, and what `QuestionPort.note` does."""
    while True:
        asking_for = question
        piece = await services.questions.preview(
            asked, lambda r: services.find_faces(r, asking_for)  # noqa: B023 - awaited in this turn
        )
        yield piece
        if not piece.cursor:
            return
        question = msgspec.structs.replace(question, cursor=piece.cursor)


def hit_rows(services: ConsoleServices, found: BestFaces[RecordRow]) -> list[Row]:
    """The hits that are kept, best first, as rows of records with their score."""
    register, zone = services.register.read(), services.site.tz
    return [
        record_row(hit.row, register, zone, services.diverged_epoch(hit.row.record_id))
        | {"score": hit.score}
        for hit in found.hits
    ]


def face_search_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")
    zone = services.site.tz

    @router.get("/faces", dependencies=[Depends(allow(ConsoleOperation.WATCH_READ))])
    async def faces(
        request: Request,
        who: Asker = Depends(asking(services)),
        record: ShortText = "",
        gallery: Annotated[ShortText, Query(alias="list")] = "",
        entry: ShortText = "",
        since: Annotated[str, Query(alias="from")] = "",
        until: str = "",
        threshold: float | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = USUAL_HITS,
        most: Annotated[int, Query(ge=1, le=MAX_READ)] = MOST_READ,
        cursor: Cursor = "",
    ) -> Response:
        """The `limit` best of the next `most` face records, newest first: all of one model, the
        score of each. `cursor` goes on behind them; `is_complete`: nothing is left."""
        subject = FaceSubject(
            record=record, gallery=gallery, entry=entry, threshold=threshold,
            from_ms=moment("from", since, zone), until_ms=moment("until", until, zone),
        )  # fmt: skip
        asked = subject.asked_by(who)
        try:
            question = await face_question(services, asked, subject)
        except NoFace as error:
            raise HTTPException(404, str(error)) from error
        best: BestFaces[RecordRow] = BestFaces(question.model, limit)
        question = msgspec.structs.replace(question, cursor=cursor)
        async with aclosing(face_pieces(services, asked, question)) as pieces:
            async for piece in pieces:
                best.add(piece)
                cursor = piece.cursor
                if best.read >= most or await request.is_disconnected():
                    break
        return json_response({
            "model": msgspec.to_builtins(question.model), "rows": hit_rows(services, best),
            "hits": best.count, "read": best.read, "compared": best.compared,
            "searched_from_ms": best.since_ms, "is_complete": not cursor, "cursor": cursor,
        })  # fmt: skip

    return router
