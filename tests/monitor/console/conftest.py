"""The console before a browser: one broker, one console process and one Chromium for a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from console_browser import PATIENCE_MS, ConsoleProcess, OpenPage, now_ms
from console_city import alarms, fill_store, incidents
from console_traffic import (
    make_topics,
    producer,
    send_events,
    send_gallery,
    send_list,
    send_proposal,
    send_records,
)
from playwright.sync_api import Browser, ConsoleMessage, Page

from deploy.servers.databus import RunningBroker
from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.questions.question import Asker, question_about
from monitor.questions.question_log import QuestionLog
from tests.running_decider import running_decider


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    path, started_ms = tmp_path_factory.mktemp("console"), now_ms()
    fill_store(path, now_ms=started_ms, records=600)
    make_topics(broker.bootstrap)
    to = producer(broker.bootstrap)
    send_events(to, alarms(started_ms), incidents(started_ms))
    send_list(to, "stolen", [f"浙S{number:05}" for number in range(250)], version=started_ms)
    send_gallery(to, "wanted", 120, version=started_ms)
    send_records(to, now_ms=started_ms, count=40, seed=4)
    send_proposal(to, started_ms)
    asked = question_about(Asker(account="li", reason="stolen", case="K-1"), "search", {"plate": "浙A12345"})
    QuestionLog(path, 400).add(asked, started_ms)
    store = AccountStore(path)
    store.add("li", "correct horse", [AccountRole.OPERATOR])
    store.add("wang", "only looking", [AccountRole.VIEWER])
    made = ConsoleProcess(path, broker.bootstrap, started_ms)
    with running_decider(broker.bootstrap):
        yield made
        made.stop()


def is_fault(page: Page, said: ConsoleMessage) -> bool:
    """An error in the browser; that an unknown page is a 404 is meant so."""
    own = "404" in said.text and said.location.get("url") == page.url
    return said.type == "error" and not own


@pytest.fixture
def open_page(console: ConsoleProcess, browser: Browser) -> Iterator[OpenPage]:
    """A page behind a one-time link; at the end: nothing from outside, no error in the browser."""
    contexts, outside, errors = [], [], []

    def open_(log_in: bool = True, width: int = 1440) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, timezone_id="Europe/London"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        own = (console.url, console.url.replace("http", "ws"), "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(own) else outside.append(r.url))
        page.on("websocket", lambda w: None if w.url.startswith(own) else outside.append(w.url))
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("console", lambda m: errors.append(m.text) if is_fault(page, m) else None)
        if log_in:
            page.goto(issue_one_time_link(console.data_path, base_url=console.url))
        return page

    yield open_
    for context in contexts:
        context.close()
    assert outside == []
    assert [e for e in errors if "401" not in e] == []
