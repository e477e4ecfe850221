"""Questions that name somebody, over the API of a site that asks why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from console_services import client_of, make_services, signed

from bus.domain.policy import PolicySettings
from bus.domain.visibility import EVERYTHING
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from monitor.questions.question_log import QuestionFilter, QuestionLog

HOUR_MS = 3_600_000
NAMING = (
    "/api/records?plate=A12345", "/api/records?text=A12345", "/api/records/count?plate=A12345",
    "/api/records?plate=浙A12345&tolerance=misread", "/api/records/count?plate=*345&from=2026-01-01",
    "/api/plates?contains=A1", "/api/alarms?plate=A12345", "/api/records.csv?plate=A12345",
    "/api/records.jsonl?plate=A12345", "/api/alarms.csv?plate=A12345", "/api/alarms.jsonl?plate=A12345",
    "/api/evidence/records?plate=A12345", "/api/evidence/records?record=x", "/api/evidence/alarms/x",
    "/api/faces?record=x",
)  # fmt: skip
NOT_NAMING = ("/api/records", "/api/records/count", "/api/alarms", "/api/records?checkpoint=x", "/api/incidents")


@pytest.fixture
def strict(data_path: Path, filled: tuple[Path, int]) -> Iterator[ConsoleServices]:
    made = make_services(data_path, filled[1], policy=PolicySettings())
    yield made
    for pool in (made.records, made.alarms, made.previews):
        pool.close()


@pytest.fixture
async def client(strict: ConsoleServices) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_api(strict)) as found:
        found.cookies.set("databus_console", cookie(strict))
        yield found


def cookie(services: ConsoleServices, *roles: AccountRole, name: str = "li") -> str:
    who = ConsolePrincipal(name=name, roles=frozenset(roles) or EVERYBODY)
    return signed({"sid": services.sessions.open(who, guest=True)}, services.secret)


def kept(services: ConsoleServices) -> list[tuple[str, str, str, str]]:
    found, _ = services.questions.kept.page(QuestionFilter(), viewer=EVERYTHING, limit=500)
    return [(one.account, one.kind, one.case, one.reason) for one in found]


@pytest.mark.parametrize("address", NAMING)
async def test_what_names_somebody_is_answered_when_it_is_said_why_and_kept_before(
    client: httpx.AsyncClient, strict: ConsoleServices, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = await client.get(address)
    assert (refused.status_code, refused.json()["field"], refused.json()["code"]) == (
        422, "reason", "no_reason",
    )  # fmt: skip
    assert kept(strict) == []
    headers = {"X-Reason": quote("被盗车辆"), "X-Case": "K-1"}
    half = await client.get(address, headers={"X-Reason": "x"})
    assert (half.status_code, half.json()["field"]) == (422, "case")
    order: list[str] = []
    add = QuestionLog.add
    monkeypatch.setattr(QuestionLog, "add", lambda *given: (order.append("kept"), add(*given)))
    for pool in (strict.records, strict.alarms):
        monkeypatch.setattr(type(pool), "_run", asked_after(order, type(pool)._run))
    answered = await client.get(address, headers=headers)
    assert answered.status_code in (200, 404)
    assert order[:2] == ["kept", "asked"]
    [(account, _, case, reason)] = kept(strict)
    assert (account.partition(" ")[0], case, reason) == ("li", "K-1", "被盗车辆")


def asked_after(order: list[str], run: Any) -> Any:
    def noted(pool: Any, query: Any) -> Any:
        order.append("asked")
        return run(pool, query)

    return noted


@pytest.mark.parametrize("address", NOT_NAMING)
async def test_what_names_nobody_is_answered_as_before_and_not_kept(
    client: httpx.AsyncClient, strict: ConsoleServices, address: str
) -> None:
    assert (await client.get(address)).status_code == 200
    assert kept(strict) == []


async def test_a_session_says_it_once_and_another_session_knows_nothing_of_it(
    client: httpx.AsyncClient, strict: ConsoleServices
) -> None:
    said = await client.post("/api/case", json={"reason": " stolen ", "case": "K-7"})
    assert said.status_code == 200
    assert (await client.get("/api/records?plate=A12345")).status_code == 200
    assert kept(strict) == [("li", "search", "K-7", "stolen")]
    async with client_of(create_api(strict)) as other:
        other.cookies.set("databus_console", cookie(strict, name="zhao"))
        assert (await other.get("/api/records?plate=A12345")).status_code == 422
    assert (await client.post("/api/case", json={})).status_code == 200
    assert (await client.get("/api/records?plate=B12345")).status_code == 422


async def test_the_pages_of_one_question_are_one_line_and_another_case_another(
    client: httpx.AsyncClient, strict: ConsoleServices
) -> None:
    for case in ("K-1", "K-1", "K-2"):
        for address in ("/api/records?plate=A12345&limit=1", "/api/records/count?plate=A12345"):
            assert (await client.get(address, headers={"X-Reason": "x", "X-Case": case})).status_code == 200
    assert [case for _, _, case, _ in kept(strict)] == ["K-2", "K-1"]


async def test_a_question_that_cannot_be_kept_is_not_answered(
    client: httpx.AsyncClient, strict: ConsoleServices
) -> None:
    strict.questions.kept.path.mkdir(parents=True)
    headers = {"X-Reason": "x", "X-Case": "K"}
    refused = await client.get("/api/records?plate=A12345", headers=headers)
    assert (refused.status_code, "questions.db" in refused.json()["error"]) == (503, True)
    assert (await client.get("/api/records")).status_code == 200


async def test_a_preview_that_names_a_plate_is_kept_with_what_it_asked(
    client: httpx.AsyncClient, strict: ConsoleServices, filled: tuple[Path, int]
) -> None:
    window = {"from_ms": filled[1] - HOUR_MS, "until_ms": filled[1]}
    rule = {"name": "n", "match": {"plate_number": ["浙A12345"]}, "where": "speed_kmh > 80"}
    refused = await client.post("/api/watch/preview", json={"rule": rule, **window})
    assert (refused.status_code, refused.json()["field"]) == (422, "reason")
    headers = {"X-Reason": "x", "X-Case": "K"}
    assert (await client.post("/api/watch/preview", json={"rule": rule, **window}, headers=headers)).status_code == 200
    [one], _ = strict.questions.kept.page(QuestionFilter(text="浙A12345"), viewer=EVERYTHING, limit=5)
    assert one.subject == {"rule": "vehicle: plate_number=浙A12345; speed_kmh > 80"}
    white = {"name": "n", "match": {"vehicle_color": ["白色"]}}
    assert (await client.post("/api/watch/preview", json={"rule": white, **window})).status_code == 200


async def test_an_administrator_sees_who_asked_what_page_by_page_and_others_do_not(
    client: httpx.AsyncClient, strict: ConsoleServices
) -> None:
    for number in range(3):
        headers = {"X-Reason": "x", "X-Case": f"K-{number}"}
        await client.get(f"/api/records?plate=A1234{number}", headers=headers)
    async with client_of(create_api(strict)) as admin:
        admin.cookies.set("databus_console", cookie(strict, AccountRole.OPERATIONS))
        first = (await admin.get("/api/questions?limit=2")).json()
        second = (await admin.get(f"/api/questions?limit=2&cursor={first['cursor']}")).json()
        found = [row["subject_text"] for row in (*first["rows"], *second["rows"])]
        assert found == ["plate=A12342", "plate=A12341", "plate=A12340"]
        assert (second["cursor"], (await admin.get("/api/questions?cursor=x")).status_code) == ("", 422)
        [one] = (await admin.get("/api/questions?case=K-1")).json()["rows"]
        assert (one["account"], one["kind"]) == ("li", "search")
        admin.cookies.set("databus_console", cookie(strict, AccountRole.OPERATOR, AccountRole.APPROVER))
        assert (await admin.get("/api/questions")).status_code == 403
