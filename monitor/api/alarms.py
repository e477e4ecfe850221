"""Alarms: a page of the search, one alarm, all of them as a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from bus.domain.visibility import Viewer
from ingest.store.port import PageRequest
from monitor.api.access import Viewing, json_response
from monitor.api.alarm_life import state_of, states_of
from monitor.api.alarm_requests import add_alarm_requests
from monitor.api.alarm_views import life_detail, life_fields
from monitor.api.asking import asking
from monitor.api.export import EXPORT_PAGE, Export, add_exports
from monitor.api.parameters import (
    Cursor,
    KindName,
    SeverityName,
    ShortText,
    StageName,
    WhoseDistricts,
    moment,
)
from monitor.api.services import ConsoleServices
from monitor.api.views import Row, alarm_detail, alarm_row
from monitor.questions.question import Asker, PersonQuestion, QuestionKind, question_about

MAX_PAGE = 500
TABLE_COLUMNS = (
    "alarm_id",
    "rule_id",
    "rule_name",
    "severity",
    "raised_at",
    "captured_at",
    "reaction_ms",
    "kind",
    "plate",
    "plate_number",
    "plate_is_doubtful",
    "is_emergency",
    "checkpoint_id",
    "checkpoint",
    "district_id",
    "camera_ip",
    "case",
    "case_target",
    "attributes",
    "record_id",
    "further_passages",
    "acknowledged_by",
    "stage",
    "owner",
    "verdict",
    "picture_url",
)


class AlarmQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question for alarms; empty fields do not restrict."""

    severity: str = ""
    rule_id: str = ""
    plate: str = ""
    checkpoint_id: str = ""
    raised_from_ms: int = 0
    raised_until_ms: int = 0
    stage: str = ""
    owner: str = ""
    changed_from_ms: int = 0
    kind: str = ""
    district_id: str = ""
    only_concerning: bool = False
    case: str = ""
    case_target: str = ""


class AlarmRow(NamedTuple):
    """An alarm, and how far it is in its life."""

    alarm: Alarm
    state: AlarmState


def add_alarms(router: APIRouter, services: ConsoleServices) -> None:
    """Routes of alarms."""
    question = _query_parameters(services.site.tz)
    _add_search(router, services, question)
    _add_exports(router, services, question)
    _add_alarm(router, services)
    add_alarm_requests(router, services)


def _query_parameters(zone: ZoneInfo) -> Callable[..., AlarmQuestion]:
    """The dependency that reads a question out of the query's parameters."""

    def question(
        severity: SeverityName = "",
        rule: ShortText = "",
        plate: ShortText = "",
        checkpoint: ShortText = "",
        since: Annotated[str, Query(alias="from")] = "",
        until: str = "",
        stage: StageName = "",
        owner: ShortText = "",
        changed: str = "",
        kind: KindName = "",
        district: ShortText = "",
        districts: WhoseDistricts = "",
        case: ShortText = "",
        target: ShortText = "",
    ) -> AlarmQuestion:
        return AlarmQuestion(
            severity=severity,
            rule_id=rule,
            plate=plate,
            checkpoint_id=checkpoint,
            raised_from_ms=moment("from", since, zone),
            raised_until_ms=moment("until", until, zone),
            stage=stage,
            owner=owner,
            changed_from_ms=moment("changed", changed, zone),
            kind=kind,
            district_id=district,
            only_concerning=districts == "mine",
            case=case,
            case_target=target,
        )

    return question


async def alarm_page(
    services: ConsoleServices, viewer: Viewer, asked: PersonQuestion, question: AlarmQuestion,
    page: PageRequest,
) -> tuple[Sequence[Alarm], str]:
    """Alarms that `viewer` sees, newest first, and the cursor of the next page. Raises
    `QueryUnavailable`, and what `QuestionPort.note` does."""
    parts = msgspec.structs.asdict(question)
    return await services.questions.alarms(
        asked, lambda r: r.alarms(page=page, viewer=viewer, **parts)
    )


def about_alarms(who: Asker, kind: QuestionKind, question: AlarmQuestion) -> PersonQuestion:
    """What is kept of such a question."""
    return question_about(who, kind, msgspec.structs.asdict(question))


async def alarm_rows(services: ConsoleServices, alarms: Sequence[Alarm]) -> list[Row]:
    """As lists show them, with their life. Raises `QueryUnavailable`."""
    register, zone = services.register.read(), services.site.tz
    states = await states_of(services, [one.alarm_id for one in alarms])
    return [
        alarm_row(alarm, register, zone) | life_fields(states[alarm.alarm_id], zone)
        for alarm in alarms
    ]


def _add_search(
    router: APIRouter, services: ConsoleServices, question: Callable[..., AlarmQuestion]
) -> None:
    @router.get("/alarms")
    async def alarms(
        who: Viewing,
        q: AlarmQuestion = Depends(question),
        asker: Asker = Depends(asking(services)),
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        asked, page = about_alarms(asker, "alarms", q), PageRequest(limit=limit, cursor=cursor)
        rows, following = await alarm_page(services, who.viewer, asked, q, page)
        shown = await alarm_rows(services, rows)
        return json_response({"rows": shown, "cursor": following})


def _add_exports(
    router: APIRouter, services: ConsoleServices, question: Callable[..., AlarmQuestion]
) -> None:
    """All that a question finds, as a file."""

    async def export(
        who: Viewing, q: AlarmQuestion = Depends(question), asker: Asker = Depends(asking(services))
    ) -> Export[AlarmRow]:
        register, zone = services.register.read(), services.site.tz
        asked = about_alarms(asker, "alarm export", q)

        async def fetch(cursor: str) -> tuple[Sequence[AlarmRow], str]:
            page = PageRequest(limit=EXPORT_PAGE, cursor=cursor)
            rows, following = await alarm_page(services, who.viewer, asked, q, page)
            states = await states_of(services, [one.alarm_id for one in rows])
            return [AlarmRow(one, states[one.alarm_id]) for one in rows], following

        return Export(
            name="alarms",
            fetch=fetch,
            show=lambda one: (
                alarm_row(one.alarm, register, zone) | life_fields(one.state, zone)
            ),
            columns=TABLE_COLUMNS,
        )

    add_exports(router, "/alarms", export)


def _add_alarm(router: APIRouter, services: ConsoleServices) -> None:
    @router.get("/alarms/{alarm_id:path}")
    async def alarm(alarm_id: str, who: Viewing) -> Response:
        found = await services.alarms.run(lambda r: r.alarm(alarm_id, viewer=who.viewer))
        if found is None:
            raise HTTPException(404, "no such alarm")
        row = alarm_detail(found, services.register.read(), services.site.tz)
        state = await state_of(services, alarm_id)
        return json_response(row | life_detail(state, services.site.tz))
