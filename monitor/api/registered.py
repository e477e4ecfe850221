"""The places of the register as it is, made once per version, and the area of a question by them.
"""

from __future__ import annotations

from functools import lru_cache

from fastapi import HTTPException

from bus.domain.registered_places import RegisteredPlaces
from bus.domain.searched_area import AreaFault, SearchedArea, searched_area
from bus.files.register_file import RegisterSource
from monitor.api.services import ConsoleServices


def places_now(services: ConsoleServices) -> RegisteredPlaces:
    """Shared by all that ask: what was found in it is found once."""
    return _places(services.register, services.register.version)


@lru_cache(maxsize=1)
def _places(register: RegisterSource, version: int) -> RegisteredPlaces:
    return RegisteredPlaces(register.read())


def area_asked(text: str, services: ConsoleServices) -> SearchedArea | None:
    """None for an empty text. One that is no area is a 422."""
    if not text:
        return None
    try:
        return searched_area(text, places_now(services))
    except AreaFault as error:
        raise HTTPException(422, f"area: {error}") from error
