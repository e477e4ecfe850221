"""Every route of the API has a row in the walk that looks for what another unit's member may not see."""

from __future__ import annotations

from fastapi import FastAPI
from walked_routes import ROUTES

OF_PAGES = {"GET /", "GET /assets/{name}"}


def test_a_new_route_is_walked_as_another_units_member(app: FastAPI) -> None:
    """Without a row for it `tests/monitor/test_units.py` would not look at its answers."""
    routes = {f"{verb.upper()} {path}" for path, verbs in app.openapi()["paths"].items() for verb in verbs}
    assert routes | OF_PAGES == ROUTES.keys()
