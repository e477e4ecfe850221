"""Records: a page of the search, one record, all of them as a file, the rejected ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.domain.searched_area import MAX_CORNERS
from bus.domain.tolerant_search import SearchTolerance
from ingest.store.port import PageRequest, RecordReader, RecordRow
from ingest.store.port import Query as Question
from monitor.api.access import VIEW, json_response
from monitor.api.asking import asking
from monitor.api.export import EXPORT_PAGE, Export, add_exports
from monitor.api.parameters import (
    Cursor,
    KindName,
    ShortText,
    ToleranceName,
    check_plate,
    moment,
)
from monitor.api.registered import area_asked
from monitor.api.services import ConsoleServices
from monitor.api.views import record_detail, record_row, rejected_row
from monitor.questions.question import Asker, PersonQuestion, QuestionKind, question_about

MAX_PAGE = 1000
MAX_PLATE_PART = 32
MAX_PLATES = 200
OFFERED_PLATES = 12  # as many as a person reads at a glance
_AREA = (
    f"A polygon, longitude and latitude of its 3 to {MAX_CORNERS} corners: 120.15 30.25, 120.17"
    " 30.25, 120.16 30.27. Records of what the register has there."
)
TABLE_COLUMNS = (
    "record_id",
    "kind",
    "captured_at",
    "stored_at",
    "latency_ms",
    "checkpoint_id",
    "checkpoint",
    "district_id",
    "camera_ip",
    "recognizer_ip",
    "plate",
    "plate_number",
    "plate_color",
    "vehicle_color",
    "vehicle_type",
    "vehicle_brand",
    "vehicle_series",
    "partly_read",
    "replayed",
    "picture_url",
    "tail_epoch",
)


def record_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")
    question = _query_parameters(services)
    _add_search(router, services, question)
    _add_plates(router, services)
    _add_exports(router, services, question)
    _add_record(router, services)  # last of /records: its path takes all that is left
    _add_rejected(router, services)
    return router


def about_records(asker: Asker, kind: QuestionKind, q: Question) -> PersonQuestion:
    """What is kept of such a question: what was asked for, not what of the site answers it."""
    naming = "plate" if q.plate else "text"
    asked: dict[str, object] = {
        name: one for name, one in msgspec.structs.asdict(q).items() if isinstance(one, str | int)
    }
    asked["area"] = q.area.text if q.area else ""
    return question_about(asker, kind, asked, naming=naming)


def _query_parameters(services: ConsoleServices) -> Callable[..., Question]:
    """The dependency that reads a question out of the query's parameters."""
    zone = services.site.tz

    def question(
        kind: KindName = "",
        plate: ShortText = "",
        tolerance: ToleranceName = "",
        checkpoint: ShortText = "",
        district: ShortText = "",
        camera: ShortText = "",
        since: Annotated[str, Query(alias="from")] = "",
        until: str = "",
        text: ShortText = "",
        area: Annotated[str, Query(description=_AREA)] = "",
    ) -> Question:
        check_plate(plate, tolerance)
        return Question(
            kind=kind,
            plate=plate,
            tolerance=cast("SearchTolerance", tolerance),
            checkpoint_id=checkpoint,
            district_id=district,
            camera_ip=camera,
            captured_from_ms=moment("from", since, zone),
            captured_until_ms=moment("until", until, zone),
            text=text,
            area=area_asked(area, services),
        )

    return question


def _add_search(
    router: APIRouter, services: ConsoleServices, question: Callable[..., Question]
) -> None:
    """A page of what a question finds, and how many there are."""

    asker = Depends(asking(services))

    @router.get("/records", dependencies=[VIEW])
    async def records(
        q: Question = Depends(question),
        who: Asker = asker,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        rows, following = await services.questions.records(
            about_records(who, "search", q),
            lambda r: r.query(q, PageRequest(limit=limit, cursor=cursor)),
        )
        register, zone = services.register.read(), services.site.tz
        return json_response(
            {
                "rows": [
                    record_row(row, register, zone, services.diverged_epoch(row.record_id))
                    for row in rows
                ],
                "cursor": following,
            }
        )

    @router.get("/records/count", dependencies=[VIEW])
    async def count(q: Question = Depends(question), who: Asker = asker) -> Response:
        asked = about_records(who, "search", q)
        found = await services.questions.records(asked, lambda r: r.count(q))
        return json_response({"count": found})


def _add_plates(router: APIRouter, services: ConsoleServices) -> None:
    """Whole plates for a part of one."""

    @router.get("/plates", dependencies=[VIEW])
    async def plates(
        contains: Annotated[ShortText, Query(min_length=1, max_length=MAX_PLATE_PART)],
        limit: Annotated[int, Query(ge=1, le=MAX_PLATES)] = OFFERED_PLATES,
        who: Asker = Depends(asking(services)),
    ) -> Response:
        found = await services.questions.records(
            question_about(who, "plates", {"plate": contains}),
            lambda r: r.plates_containing(contains, limit=limit),
        )
        return json_response(found)


def _add_exports(
    router: APIRouter, services: ConsoleServices, question: Callable[..., Question]
) -> None:
    """All that a question finds, as a file."""

    def export(
        q: Question = Depends(question), who: Asker = Depends(asking(services))
    ) -> Export[RecordRow]:
        asked = about_records(who, "export", q)
        register, zone = services.register.read(), services.site.tz
        return Export(
            name="records",
            fetch=lambda cursor: services.questions.records(asked, _page_of(q, cursor)),
            show=lambda row: record_row(
                row, register, zone, services.diverged_epoch(row.record_id)
            ),
            columns=TABLE_COLUMNS,
        )

    add_exports(router, "/records", export)


def _page_of(q: Question, cursor: str) -> Callable[[RecordReader], tuple[list[RecordRow], str]]:
    return lambda r: r.query(q, PageRequest(limit=EXPORT_PAGE, cursor=cursor))


def _add_record(router: APIRouter, services: ConsoleServices) -> None:
    """One record."""

    @router.get("/records/{record_id:path}", dependencies=[VIEW])
    async def record(record_id: str) -> Response:
        rows, _ = await services.records.run(
            lambda r: r.query(Question(record_id=record_id), PageRequest(limit=1))
        )
        if not rows:
            raise HTTPException(404, "no such record")
        register, zone = services.register.read(), services.site.tz
        return json_response(
            record_detail(rows[0], register, zone, services.diverged_epoch(rows[0].record_id))
        )


def _add_rejected(router: APIRouter, services: ConsoleServices) -> None:
    """A page of what the contract refused."""

    @router.get("/rejected", dependencies=[VIEW])
    async def rejected(
        kind: KindName = "",
        reason: ShortText = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        rows, following = await services.records.run(
            lambda r: r.rejected(
                kind=kind, reason=reason, page=PageRequest(limit=limit, cursor=cursor)
            )
        )
        register, zone = services.register.read(), services.site.tz
        return json_response(
            {
                "rows": [
                    rejected_row(row, register, zone, services.diverged_epoch(row.record_id))
                    for row in rows
                ],
                "cursor": following,
            }
        )
