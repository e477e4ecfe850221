"""Packages of evidence, as files: of an alarm, of a record, of the way of a plate."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from fastapi.responses import StreamingResponse

from ingest.store.port import PageRequest, RecordRow
from ingest.store.port import Query as Question
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow
from monitor.api.alarm_life import state_of
from monitor.api.asking import asking
from monitor.api.parameters import ShortText, check_plate, moment
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices
from monitor.evidence.archive import MOST_RECORDS, EvidenceRequest, write_archive
from monitor.evidence.manifest import (
    EvidenceAlarm,
    RecordSource,
    evidence_alarm,
    of_alarm,
    of_record,
)
from monitor.i18n import texts
from monitor.questions.question import Asker, question_about

PIECE_BYTES = 1 << 18
Language = Annotated[str, Query(pattern="^(zh|en)$")]
Exporter = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.EXPORT))]
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def evidence_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api/evidence")
    exports = _EvidenceExports(services)
    _add_alarm(router, services, exports)
    _add_records(router, services, exports)
    return router


def _add_alarm(router: APIRouter, services: ConsoleServices, exports: _EvidenceExports) -> None:
    """Also of an alarm whose record the store has forgotten, or while that store is away."""

    @router.get("/alarms/{alarm_id:path}")
    async def alarm_evidence(
        alarm_id: str,
        who: Exporter,
        language: Language = "zh",
        asker: Asker = Depends(asking(services)),
    ) -> Response:
        asked = question_about(asker, "evidence", {"alarm": alarm_id}, naming="alarm")
        alarm = await services.questions.alarms(
            asked, lambda r: r.alarm(alarm_id, viewer=who.viewer)
        )
        if alarm is None:
            raise HTTPException(404, "no such alarm")
        row, zone = await _stored(services, alarm.record_id), services.site.tz
        source = of_alarm(alarm, row, services.register.read(), zone)
        state = await state_of(services, alarm_id)
        about = {"alarm": alarm_id}
        return await exports.answer(
            who.name, language, about, [source], evidence_alarm(alarm, zone, state)
        )


async def _stored(services: ConsoleServices, record_id: str) -> RecordRow | None:
    try:
        rows, _ = await services.records.run(
            lambda r: r.query(Question(record_id=record_id), PageRequest(limit=1))
        )
    except QueryUnavailable:
        return None  # the alarm's own copy does without
    return rows[0] if rows else None


def _add_records(router: APIRouter, services: ConsoleServices, exports: _EvidenceExports) -> None:
    """Of one record, or of a plate in a time: in the order of capture."""
    zone = services.site.tz

    @router.get("/records")
    async def record_evidence(
        who: Exporter,
        record: ShortText = "",
        plate: ShortText = "",
        since: Annotated[str, Query(alias="from")] = "",
        until: str = "",
        language: Language = "zh",
        asker: Asker = Depends(asking(services)),
    ) -> Response:
        if bool(record) == bool(plate):
            raise HTTPException(422, "give either a record or a plate")
        check_plate(plate, "")
        question = Question(
            record_id=record,
            plate=plate,
            captured_from_ms=moment("from", since, zone),
            captured_until_ms=moment("until", until, zone),
        )
        subject = {"record": record, "plate": plate, "from": since, "until": until}
        asked = question_about(asker, "evidence", subject, naming="record" if record else "plate")
        rows, _ = await services.questions.records(
            asked, lambda r: r.query(question, PageRequest(limit=MOST_RECORDS + 1))
        )
        if not rows:
            raise HTTPException(404, "no such record")
        if len(rows) > MOST_RECORDS:
            raise HTTPException(422, f"more than {MOST_RECORDS} records: choose a shorter time")
        register = services.register.read()
        sources = [of_record(row, register, zone) for row in reversed(rows)]
        about = {name: text for name, text in subject.items() if text}
        return await exports.answer(who.name, language, about, sources)


class _EvidenceExports:
    """One is packed at a time: it may take half a gibibyte of the disk for files that nobody
    keeps."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._packing = asyncio.Lock()

    async def answer(
        self,
        made_by: str,
        language: str,
        about: dict[str, str],
        sources: Sequence[RecordSource],
        alarm: EvidenceAlarm | None = None,
    ) -> Response:
        """The file, which is gone from here once it is sent."""
        site = self._services.site
        asked = EvidenceRequest(site.name, made_by, datetime.now(site.tz), about)

        def pack() -> BinaryIO:
            target = tempfile.TemporaryFile()  # noqa: SIM115 - the answer closes it
            try:
                read_picture = self._services.read_picture
                write_archive(target, asked, alarm, sources, read_picture, texts(language))
            except BaseException:
                target.close()
                raise
            return target

        async with self._packing:
            target = await asyncio.to_thread(pack)
        name = _UNSAFE.sub("-", "-".join(about.values())).strip("-")[:60] or "records"
        size = target.tell()
        headers = {
            "Content-Disposition": f'attachment; filename="evidence-{name}.zip"',
            "Content-Length": str(size),
            "Cache-Control": "no-store",
        }
        return StreamingResponse(_pieces(target), media_type="application/zip", headers=headers)


def _pieces(target: BinaryIO) -> Iterator[bytes]:
    with target:
        target.seek(0)
        while piece := target.read(PIECE_BYTES):
            yield piece
