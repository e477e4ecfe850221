"""Who puts a question, and why: a session says it once, a script with each request.

`X-Reason` and `X-Case` are percent-encoded UTF-8, because a header holds no Chinese.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import VIEW, allow, json_response, principal_of, read_json
from monitor.api.parameters import Cursor, QuestionKindName, ShortText, moment, place_of
from monitor.api.services import ConsoleServices
from monitor.api.views import clock
from monitor.questions.question import Asker, PersonQuestion, check_reason
from monitor.questions.question_log import MAX_PAGE, QuestionFilter, StoredQuestion
from monitor.questions.session_cases import SessionCase

MAX_CASE_BYTES = 8 * 1024
MAX_ID_DIGITS = 18
TOO_LARGE = f"a case has at most {MAX_CASE_BYTES} bytes"


class NewCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person works on from now on."""

    reason: str = ""
    case: str = ""


def asker_of(services: ConsoleServices, principal: ConsolePrincipal) -> Asker:
    """Of a page: what the session says."""
    said = services.session_cases.get(principal.session)
    return Asker(
        account=principal.name, reason=said.reason, case=said.case, unit=principal.viewer.unit
    )


def asking(services: ConsoleServices) -> Callable[[Request], Asker]:
    """A dependency: what the headers say, else the session."""

    def asker(request: Request) -> Asker:
        principal = principal_of(request)
        said = asker_of(services, principal)
        written = (request.headers.get(name, "") for name in ("x-reason", "x-case"))
        reason, case = (unquote(one, errors="replace") for one in written)
        if not reason and not case:
            return said
        return Asker(
            account=principal.name, issuer="API", reason=reason, case=case,
            unit=principal.viewer.unit,
        )  # fmt: skip

    return asker


def question_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api: the session's case; for administrators what was asked."""
    router = APIRouter(prefix="/api")

    @router.get("/case", dependencies=[VIEW])
    async def case(request: Request) -> Response:
        said = asker_of(services, principal_of(request))
        return json_response(
            {
                "reason": said.reason,
                "case": said.case,
                "is_required": services.questions.policy.requires_reason,
            }
        )

    @router.post("/case")
    async def set_case(
        request: Request, who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.VIEW))]
    ) -> Response:
        new = await read_json(request, NewCase, MAX_CASE_BYTES, TOO_LARGE)
        choose_case(services, who, SessionCase(new.reason, new.case))
        return json_response({"reason": new.reason, "case": new.case})

    @router.get("/questions")
    async def questions(
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.QUESTIONS_READ))],
        account: ShortText = "",
        kind: QuestionKindName = "",
        case: ShortText = "",
        text: ShortText = "",
        since: Annotated[str, Query(alias="from")] = "",
        until: str = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        zone = services.site.tz
        wanted = QuestionFilter(
            account=account, kind=kind, case=case, text=text,
            from_ms=moment("from", since, zone), until_ms=moment("until", until, zone),
        )  # fmt: skip
        before_id = place_of(cursor, MAX_ID_DIGITS)
        rows, following = await asyncio.to_thread(
            services.questions.kept.page, wanted, viewer=who.viewer, limit=limit,
            before_id=before_id,
        )  # fmt: skip
        return json_response(
            {
                "rows": [question_row(services, row) for row in rows],
                "cursor": str(following) if following else "",
            }
        )

    return router


def choose_case(services: ConsoleServices, who: ConsolePrincipal, case: SessionCase) -> None:
    """From now on. Raises `ReasonMissing` where it is too long."""
    asker = Asker(account=who.name, reason=case.reason, case=case.case)
    unasked = PersonQuestion(asker=asker, kind="search", subject={}, names_somebody=False)
    check_reason(unasked, services.questions.policy)
    services.session_cases.set(who.session, SessionCase(case.reason.strip(), case.case.strip()))


def question_row(services: ConsoleServices, one: StoredQuestion) -> dict[str, object]:
    """As lists show it."""
    return {
        **msgspec.to_builtins(one),
        "at": clock(one.at_ms, services.site.tz),
        "subject_text": one.subject_text,
    }
