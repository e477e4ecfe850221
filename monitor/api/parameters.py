"""What the parameters of a query may be: one that cannot be read is refused by its name, and
nothing is shown.

Never: a parameter that is dropped because it is not understood; that would answer another
question than the one asked.
"""

from __future__ import annotations

from typing import Annotated, get_args
from zoneinfo import ZoneInfo

from fastapi import HTTPException, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from bus.domain.tolerant_search import SEARCH_TOLERANCES, NotOnePlate, tolerant_plate
from monitor.api.views import KINDS, MAX_TEXT, SEVERITIES, STAGES, parse_time
from monitor.questions.question import QuestionKind

MAX_CURSOR = 512


def _one_of(choices: tuple[str, ...]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(filter(None, choices))}")
        return value

    return AfterValidator(check)


def _check_text(value: str) -> str:
    if value and (not value.strip() or not value.isprintable() or len(value) > MAX_TEXT):
        raise ValueError(f"at most {MAX_TEXT} printable characters, not blanks alone")
    return value.strip()


def _check_cursor(value: str) -> str:
    if len(value) > MAX_CURSOR:
        raise ValueError("none of this list")
    return value


KindName = Annotated[str, _one_of(KINDS)]
"""A kind of data; empty: all of them."""
QuestionKindName = Annotated[str, _one_of(("", *get_args(QuestionKind)))]
"""What kind of question was asked; empty: all of them."""
StageName = Annotated[str, _one_of(STAGES)]
"""How far an alarm is in its life; empty: anywhere."""
WhoseDistricts = Annotated[str, _one_of(("", "mine"))]
"""`mine`: alarms that are shown to who asks first; empty: all that he sees."""
SeverityName = Annotated[str, _one_of(SEVERITIES)]
ToleranceName = Annotated[str, _one_of(SEARCH_TOLERANCES)]
"""How far a reading may be from the plate; empty: not at all."""
ShortText = Annotated[str, AfterValidator(_check_text)]
"""Empty: no restriction."""
Cursor = Annotated[str, AfterValidator(_check_cursor)]


def check_plate(plate: str, tolerance: str) -> None:
    """A tolerance that the plate cannot have is a 422."""
    try:
        tolerant_plate(plate, tolerance)
    except NotOnePlate as error:
        raise HTTPException(422, str(error)) from error


def moment(name: str, text: str, zone: ZoneInfo) -> int:
    """Epoch milliseconds; 0 for an empty text. A time that cannot be read is a 422."""
    try:
        if text and not text.strip():
            raise ValueError("a time, not blanks alone")
        return parse_time(text, zone)
    except ValueError as error:
        raise HTTPException(422, f"{name}: {error}") from error


def place_of(cursor: str, most_digits: int) -> int:
    """Where a list goes on whose cursor is a number; 0 without one. Raises `HTTPException`."""
    is_number = cursor.isascii() and cursor.isdigit() and len(cursor) <= most_digits
    if cursor and not is_number:
        raise HTTPException(422, "cursor: none of this list")
    return int(cursor or "0")


async def only_known(request: Request) -> None:
    """A dependency of every route of the API: a misspelt name is no parameter left out."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not request.url.path.startswith("/api/"):
        return
    known = _names(route.dependant)
    for name in request.query_params:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise HTTPException(422, f"{name[:MAX_TEXT]}: no parameter of this address; {listed}")


def _names(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))
