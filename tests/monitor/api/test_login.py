"""Log-in, log-out, links, preferences, over HTTP."""

from __future__ import annotations

import asyncio
import html
import sqlite3
import threading
import time
from typing import Any

import httpx
import pytest
from console_services import client_of
from fastapi import FastAPI

from bus.runtime.wall_clock import now_ms
from monitor.accounts.database import WRITE_TIMEOUT_S
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.login_limiter import MAX_JUDGED_AT_ONCE_PER_SENDER, SLOWED_MS
from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.api.app import create_api
from monitor.api.login import local_path
from monitor.api.services import ConsoleServices


async def post(client: httpx.AsyncClient, name: str, password: str, **more: str) -> httpx.Response:
    return await client.post("/auth/login", data={"name": name, "password": password, **more})


async def test_a_person_logs_in_and_out(stranger: httpx.AsyncClient, services: ConsoleServices) -> None:
    """And the old cookie is worth nothing after that, though its signature is still good."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    reply = await post(stranger, "li", "correct horse", next="/map")
    assert (reply.status_code, reply.headers["location"]) == (303, "/map")
    assert "httponly" in reply.headers["set-cookie"].lower()
    assert (await stranger.get("/api/records?limit=1")).status_code == 200
    old = stranger.cookies["databus_console"]
    assert (await stranger.post("/auth/logout")).status_code == 303
    stranger.cookies.set("databus_console", old)
    assert (await stranger.get("/api/records?limit=1")).status_code == 401


async def test_logging_in_again_ends_the_first_session_and_changes_its_id(
    services: ConsoleServices,
) -> None:
    """Rotation: an id that was planted or read before is of no use afterwards."""
    ended: list[str] = []
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    async with client_of(create_api(services, ended.append)) as client:
        await post(client, "li", "correct horse")
        first = client.cookies["databus_console"]
        await post(client, "li", "correct horse")
        assert client.cookies["databus_console"] != first
        assert len(ended) == 1


async def test_after_too_many_failures_even_the_right_password_waits(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """Per account and address; another account is not shut out."""
    store = AccountStore(services.site.data_path)
    store.add("li", "correct horse", [AccountRole.VIEWER])
    store.add("wang", "correct horse", [AccountRole.VIEWER])
    for _ in range(services.console.failed_logins):
        assert (await post(stranger, "li", "wrong horse")).status_code == 401
    assert (await post(stranger, "li", "correct horse")).status_code == 429
    assert (await post(stranger, "wang", "correct horse")).status_code == 303


async def test_a_wrong_password_keeps_the_name_that_was_typed(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """Exactly, also where it is written like a field of the page's template, or like HTML."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    assert 'name="name" value=""' in (await stranger.get("/login")).text
    for typed, written in (("li", "li"), ("{{next}}", "{{next}}"), ('"><b>', "&quot;&gt;&lt;b&gt;")):
        reply = await post(stranger, typed, "wrong horse", next="/map")
        assert reply.status_code == 401
        assert f'name="name" value="{written}"' in reply.text
        assert "wrong horse" not in reply.text


async def test_the_way_through_the_log_in_keeps_the_whole_address(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """Search and open record of a link that another person copied, in either language."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    address = "/records?kind=face&checkpoint=330100%233%231%230&record=r-1"
    asked = await stranger.get(address)
    assert asked.status_code == 303
    form = await stranger.get(asked.headers["location"])
    other = html.unescape(form.text.partition('href="/login?')[2].partition('"')[0])
    for page in (form, await stranger.get("/login?" + other)):
        target = html.unescape(page.text.partition('name="next" value="')[2].partition('"')[0])
        assert target == address
    reply = await post(stranger, "li", "correct horse", next=target)
    assert reply.headers["location"] == address


async def test_a_one_time_link_opens_the_console_once(app: FastAPI, services: ConsoleServices) -> None:
    """It is useless when found in a terminal's history."""
    path = issue_one_time_link(services.site.data_path, base_url="")
    async with client_of(app) as first, client_of(app) as second:
        assert (await first.get(path)).status_code == 303
        assert (await first.get("/api/status")).status_code == 200
        assert (await second.get(path)).status_code == 401
        assert (await second.get("/api/status")).status_code == 401


async def test_language_and_theme_are_kept_over_the_log_in(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """Chosen on the log-in page, still there behind it."""
    assert "用户名" in (await stranger.get("/login")).text
    assert "Password" in (await stranger.get("/login?language=en")).text
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    await post(stranger, "li", "correct horse")
    assert "Password" in (await stranger.get("/login")).text


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil", "javascript:1", "", "/login", "/a\nb"],
)
def test_the_way_on_never_leaves_the_console(target: str) -> None:
    """With any `next` of a link."""
    assert local_path(target) == "/"


async def test_what_a_stranger_writes_is_shown_as_text(stranger: httpx.AsyncClient) -> None:
    """No markup from a link on the log-in page."""
    reply = await stranger.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>alert" not in reply.text


async def test_a_viewer_may_look_but_not_act(as_role: Any) -> None:
    """403, and the reason."""
    viewer = as_role(AccountRole.VIEWER)
    assert (await viewer.get("/api/records?limit=1")).status_code == 200
    assert (await viewer.get("/api/watch")).status_code == 200
    assert (await viewer.get("/api/records.csv")).status_code == 403
    assert (await viewer.post("/api/watch", content=b"{}")).status_code == 403
    assert (await viewer.delete("/api/watch/w-1")).status_code == 403


class Judge:
    """The real password check, which answers only on command, so that requests before that are
    really concurrent. Counts the passwords it has checked.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.may_answer = threading.Event()
        real = AccountStore.verify

        def verify(store: AccountStore, name: str, password: str) -> Any:
            self.asked += 1
            assert self.may_answer.wait(30)
            return real(store, name, password)

        monkeypatch.setattr(AccountStore, "verify", verify)

    async def answers(self, requests: list[Any]) -> list[httpx.Response]:
        """All requests start before the check answers."""
        tasks = [asyncio.ensure_future(request) for request in requests]
        for _ in range(50):  # turns of the loop, in which every request comes as far as it can
            await asyncio.sleep(0)
        self.may_answer.set()
        return list(await asyncio.gather(*tasks))


async def test_of_forty_guesses_at_once_only_the_limit_is_judged(
    stranger: httpx.AsyncClient, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, all forty were looked at before the first one counted, and the right one got in."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    judge = Judge(monkeypatch)
    guesses = [f"wrong horse {i}" for i in range(39)] + ["correct horse"]
    replies = await judge.answers([post(stranger, "li", guess) for guess in guesses])
    assert judge.asked <= services.console.failed_logins
    assert [r.status_code for r in replies].count(401) == judge.asked
    refused = [r for r in replies if r.status_code == 429]
    assert len(refused) == 40 - judge.asked
    assert all(int(r.headers["retry-after"]) >= 1 for r in refused)


async def test_scripts_at_once_are_bounded_too_and_told_when_to_come_back(
    stranger: httpx.AsyncClient, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP Basic goes through the same gate; the thread pool that others use is left alone."""
    judge = Judge(monkeypatch)
    guesses = [
        stranger.get("/api/status", auth=httpx.BasicAuth(f"name-{i}", "wrong")) for i in range(40)
    ]
    replies = await judge.answers(guesses)
    assert judge.asked == MAX_JUDGED_AT_ONCE_PER_SENDER
    refused = [r for r in replies if r.status_code == 429]
    assert len(refused) == 40 - judge.asked
    assert all(int(r.headers["retry-after"]) >= 1 for r in refused)


async def test_a_script_that_begins_with_many_requests_is_judged_once(
    stranger: httpx.AsyncClient, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name and password need one answer; all of them get in."""
    AccountStore(services.site.data_path).add("script", "correct horse", [AccountRole.OPERATIONS])
    judge = Judge(monkeypatch)
    auth = httpx.BasicAuth("script", "correct horse")
    replies = await judge.answers([stranger.get("/api/status", auth=auth) for _ in range(20)])
    assert (judge.asked, {r.status_code for r in replies}) == (1, {200})


async def test_while_an_account_is_locked_a_remembered_password_is_refused_too(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """Before, what had been right within the last minute was let in past the lock."""
    AccountStore(services.site.data_path).add("script", "correct horse", [AccountRole.OPERATIONS])
    good = httpx.BasicAuth("script", "correct horse")
    assert (await stranger.get("/api/status", auth=good)).status_code == 200
    for _ in range(services.console.failed_logins):
        await post(stranger, "script", "wrong horse")
    reply = await stranger.get("/api/status", auth=good)
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 1
    assert (await stranger.get("/healthz", auth=good)).status_code == 200


@pytest.fixture
def pauses(services: ConsoleServices, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long answers were held back; for the limits that time has passed, nobody waits for it."""
    held: list[float] = []
    monkeypatch.setattr(services.passwords, "_now_ms", lambda: now_ms() + round(1000 * sum(held)))

    async def pause(seconds: float) -> None:
        held.append(seconds)

    monkeypatch.setattr(services.passwords, "_pause", pause)
    return held


async def test_wrong_names_do_not_lock_out_who_sits_behind_the_same_address(
    app: FastAPI, stranger: httpx.AsyncClient, services: ConsoleServices, pauses: list[float]
) -> None:
    """A command room: before, after so many wrong names nobody in it could log in."""
    store = AccountStore(services.site.data_path)
    for name, count in (("li", 12), ("wang", 2 * services.console.failed_logins_per_address)):
        store.add(name, "correct horse", [AccountRole.OPERATOR])
        for i in range(count):
            assert (await post(stranger, f"{name}-{i}", "wrong horse")).status_code == 401
        async with client_of(app) as operator:
            assert (await post(operator, name, "correct horse")).status_code == 303
            auth = httpx.BasicAuth(name, "correct horse")
            assert (await operator.get("/metrics", auth=auth)).status_code == 200
    assert 0 < len(pauses) < services.console.failed_logins_per_address + 12  # never his


async def test_who_guesses_over_many_names_is_slowed_and_learns_no_name(
    stranger: httpx.AsyncClient, services: ConsoleServices, pauses: list[float]
) -> None:
    """An account's name and one that is none: the same answers at the same moments."""
    store = AccountStore(services.site.data_path)
    for number in range(40):
        if number % 2:
            store.add(f"name-{number}", "correct horse", [AccountRole.VIEWER])
    limit = services.console.failed_logins_per_address
    replies = [await post(stranger, f"name-{i}", "wrong horse") for i in range(40)]
    assert [r.status_code for r in replies] == [401] * 40
    assert len(pauses) == 40 - limit
    assert all(SLOWED_MS / 1000 - 5 < one <= SLOWED_MS / 1000 for one in pauses)
    texts = {r.text.replace(f"name-{i}", "NAME") for i, r in enumerate(replies)}
    assert len(texts) == 1
    again = [await post(stranger, f"name-{i}", "wrong horse") for i in (38, 39, 40)]
    assert [r.status_code for r in again] == [429, 429, 401]
    basic = httpx.BasicAuth("name-41", "wrong horse")
    assert (await stranger.get("/api/status", auth=basic)).status_code == 401
    assert len(pauses) == 42 - limit


async def test_a_browser_that_is_known_is_not_locked_with_its_name(
    app: FastAPI, services: ConsoleServices, pauses: list[float]
) -> None:
    """Somebody in the room guesses at li; li's own browser still lets li in, and only li."""
    store = AccountStore(services.site.data_path)
    store.add("li", "correct horse", [AccountRole.OPERATOR])
    store.add("wang", "correct horse", [AccountRole.OPERATOR])
    async with client_of(app) as known, client_of(app) as guesser:
        first = await post(known, "li", "correct horse")
        assert "httponly" in first.headers.get_list("set-cookie")[-1].lower()
        await known.post("/auth/logout")
        for name in ("li", "wang"):
            for _ in range(services.console.failed_logins):
                assert (await post(guesser, name, "wrong horse")).status_code == 401
            assert (await post(guesser, name, "correct horse")).status_code == 429
        assert (await post(known, "wang", "correct horse")).status_code == 429
        assert (await post(known, "li", "correct horse")).status_code == 303
        for _ in range(services.console.failed_logins):
            assert (await post(known, "li", "wrong horse")).status_code == 401
        assert (await post(known, "li", "correct horse")).status_code == 429  # its own lock


async def test_the_cookie_is_secure_where_the_request_came_by_tls(services: ConsoleServices) -> None:
    """A proxy in front uses TLS; on plain HTTP a `Secure` cookie would never be returned."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    app = create_api(services)
    for scheme in ("https", "http"):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://console") as client:
            reply = await post(client, "li", "correct horse")
        for cookie in reply.headers.get_list("set-cookie"):
            assert ("secure" in cookie.lower()) == (scheme == "https")


async def test_while_another_process_changes_the_accounts_everybody_else_is_served(
    stranger: httpx.AsyncClient, services: ConsoleServices, as_role: Any
) -> None:
    """A log-in waits for that transaction in a thread; before, it waited on the event loop."""
    AccountStore(services.site.data_path).add("li", "correct horse", [AccountRole.VIEWER])
    client, began_s = as_role(), time.monotonic()
    other = sqlite3.connect(services.account_store.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    log_in = asyncio.create_task(post(stranger, "li", "correct horse"))
    for _ in range(20):
        assert (await client.get("/api/records?limit=1")).status_code == 200
        await asyncio.sleep(0.02)
    assert not log_in.done()
    other.execute("ROLLBACK")
    assert (await log_in).status_code == 303
    assert time.monotonic() - began_s < WRITE_TIMEOUT_S
    other.close()


async def test_changes_of_the_accounts_that_wait_are_bounded(
    services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the file, the line ends somewhere."""
    monkeypatch.setattr("monitor.api.account_writes.MAX_WAITING", 3)
    writes, go_on = services.account_writes, threading.Event()
    waiting = [asyncio.ensure_future(writes.run(lambda: go_on.wait(30))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(AccountsUnavailable):
        await writes.run(lambda: None)
    waiting[2].cancel()
    go_on.set()
    assert (await asyncio.gather(*waiting, return_exceptions=True))[:2] == [True, True]
    assert await writes.run(lambda: 7) == 7
