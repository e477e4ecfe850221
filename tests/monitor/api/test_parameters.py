"""Every parameter of every route of the API: what cannot be read is refused by its name.

The routes and parameters come from the API's own document; one that is added is asked here, too.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from planted_faces import face_id, plant_faces

from monitor.api.services import ConsoleServices

NEEDED = {
    "/api/quality/hour": {"at": "2026-11-28"},
    "/api/plates": {"contains": "A"},
    "/api/evidence/records": {"plate": "浙A00000"},
    "/api/latency": {"scope": "device", "scope_id": "10.0.0.1"},
    "/api/faces": {"record": face_id(0)},
}
SHOWN = ("rows", "count", "plates", "curves", "devices", "total")
JUNK = ("junk", "yesterday", "2026-13-01", "\x00", "\u200b", "   ", "x" * 300, "1e9", "\U0001f697")
CHOSEN = {"kind", "severity", "scope", "from", "until", "at", "limit", "open_only", "cursor"}
"""Parameters with a form of their own; any other is a text that may stand nowhere."""


@pytest.fixture
def services(
    services: ConsoleServices, data_path: Path, filled: tuple[Path, int]
) -> ConsoleServices:
    """A face is there that others may resemble."""
    plant_faces(data_path, filled[1], 1)
    return services


def parameters(app: FastAPI) -> list[tuple[str, str]]:
    """Path and name of each parameter in a query, but those of the log-in's page."""
    found = []
    for path, verbs in app.openapi()["paths"].items():
        for one in verbs.get("get", {}).get("parameters", ()):
            if one["in"] == "query" and path.startswith("/api/") and "{" not in path:
                found.append((path, one["name"]))
    return found


def shown(body: dict[str, Any]) -> list[object]:
    """What an answer has of the store, without what is empty or zero."""

    def something(value: object) -> bool:
        if isinstance(value, dict):
            return any(map(something, value.values()))
        if isinstance(value, list):
            return any(map(something, value))
        return (isinstance(value, str) and value != "") or (bool(value) and not isinstance(value, str))

    return [name for name in SHOWN if something(body.get(name))]


FINDS_MORE = {("/api/register", "v"), ("/api/questions", "text")}
"""A version that is another one; what was asked before, which was this junk."""


async def test_junk_is_refused_by_name_or_finds_nothing(app: FastAPI, as_role: Any) -> None:
    """`from=junk` was a 422 that did not say of what, `kind=nokind` an empty list without a word."""
    client, asked = as_role(), parameters(app)
    assert {"from", "until", "kind", "severity", "cursor", "limit", "camera"} <= {n for _, n in asked}
    faults = []
    for path, name in asked:
        for junk in JUNK:
            reply = await client.get(path, params=NEEDED.get(path, {}) | {name: junk})
            refused = reply.status_code == 422 and name in reply.text
            is_empty = reply.status_code == 404 or (
                reply.status_code == 200 and not shown(_body(reply))
            )
            nothing = name not in CHOSEN and is_empty
            if not (refused or nothing) and (path, name) not in FINDS_MORE:
                faults.append((path, name, junk, reply.status_code, reply.text[:80]))
    assert not faults, "\n".join(map(str, faults))


def _body(reply: Any) -> dict[str, Any]:
    kind = reply.headers["content-type"]
    if "jsonl" in kind:
        return {"rows": reply.text.splitlines()}
    if "json" in kind:
        return dict(reply.json())
    return {"rows": reply.text.splitlines()[1:]}


async def test_a_misspelt_parameter_is_refused_by_name(app: FastAPI, as_role: Any) -> None:
    """`form=2026-11-01` would show everything."""
    client = as_role()
    for path in {path for path, _ in parameters(app)}:
        reply = await client.get(path, params=NEEDED.get(path, {}) | {"form": "2026-11-01"})
        assert (reply.status_code, "form" in reply.text) == (422, True), path


@pytest.mark.parametrize("path", ["/api/records", "/api/rejected", "/api/alarms", "/api/watch"])
async def test_a_refused_cursor_leaves_the_store_open(as_role: Any, services: Any, path: str) -> None:
    """It is the question's fault: nobody is told that the store is away."""
    client = as_role()
    for cursor in ("junk", "1.2.3", "\u0661", string.punctuation, "9" * 40, "-"):
        assert (await client.get(path, params={"cursor": cursor})).status_code == 422
    assert (services.records.unavailable, services.alarms.unavailable) == ("", "")
    assert (await client.get(path)).status_code == 200
