"""What a rule would have hit, before it is put; asked for a piece at a time, so that whoever asks
shows how far it is and may stop. Counts by checkpoint, no records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from bus.contracts.commands import WatchCommand
from bus.domain.rule_check import check_rule
from bus.domain.rule_preview import PreviewPiece, PreviewRequest, check_window
from bus.domain.rule_targets import names_somebody
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_json
from monitor.api.asking import asking
from monitor.api.operations import MAX_RULE_BYTES, TOO_LARGE, NewRule, put_command
from monitor.api.registered import places_now
from monitor.api.services import ConsoleServices
from monitor.questions.question import Asker, PersonQuestion, rule_sentence


class PreviewQuestion(PreviewRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of what rule, and which piece."""

    rule: NewRule


async def preview(
    services: ConsoleServices, asker: Asker, rule: WatchCommand, asked: PreviewRequest
) -> PreviewPiece:
    """The next piece. Raises `RuleError`, `InvalidWindow`, `InvalidCursor`, `QueryUnavailable`, and
    what `QuestionPort.note` does."""
    check_rule(rule, now_ms())
    check_window(asked)
    places = places_now(services)
    question = PersonQuestion(
        asker=asker, kind="preview", subject={"rule": rule_sentence(rule)},
        names_somebody=names_somebody(rule),
    )  # fmt: skip
    return await services.questions.preview(
        question, lambda reader: services.preview_rule(reader, rule, asked, places)
    )


def preview_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")

    @router.post("/watch/preview")
    async def piece(
        request: Request,
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))],
        asker: Asker = Depends(asking(services)),
    ) -> Response:
        asked = await read_json(request, PreviewQuestion, MAX_RULE_BYTES, TOO_LARGE)
        rule = put_command(services, asked.rule, who)
        found = await preview(services, asker, rule, asked)
        return json_response(
            {"read": found.read, "cursor": found.cursor, "hits": _rows(services, found.hits)}
        )

    return router


def _rows(services: ConsoleServices, hits: Mapping[str, int]) -> list[dict[str, object]]:
    """Most hits first."""
    known = services.register.read().checkpoint_by_id
    ranked = sorted(hits.items(), key=lambda one: (-one[1], one[0]))
    return [
        {
            "checkpoint_id": place,
            "checkpoint": known[place].name if place in known else "",
            "hits": count,
        }
        for place, count in ranked
    ]
