"""What a page is before it is there, and what stands where no page is."""

from __future__ import annotations

import pytest
from console_browser import ConsoleProcess, OpenPage
from playwright.sync_api import Browser

from monitor.accounts.one_time_links import issue_one_time_link
from monitor.console.layout import PAGES
from tests.rotation import drawn

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]


@pytest.mark.parametrize(
    ("language", "heading", "back"),
    drawn(
        "no page",
        [("zh", "没有这个页面", "返回“实时态势”"), ("en", "No such page", "Back to “Live”")],
    ),
)
def test_an_unknown_page_has_the_products_frame_and_a_way_back(
    open_page: OpenPage, console: ConsoleProcess, language: str, heading: str, back: str
) -> None:
    """With its navigation, in the person's language; a path from outside is text, nothing more."""
    page = open_page()
    page.request.post(f"{console.url}/auth/preferences", form={"language": language}, max_redirects=0)
    answered = page.goto(console.url + "/non<b>sense</b>?x=1")
    assert answered is not None
    assert answered.status == 404
    assert page.locator("h1").inner_text() == heading
    assert page.locator(".panel b").count() == 0
    assert page.locator("nav.pages a").count() == len(PAGES)
    page.get_by_text(back).click()
    page.wait_for_url("**/live")


def test_scripts_get_json_where_nothing_is(open_page: OpenPage, console: ConsoleProcess) -> None:
    """And the status tells them, for any request."""
    page = open_page()
    for reply in (
        page.request.get(console.url + "/api/nonsense"),
        page.request.post(console.url + "/nonsense"),
        page.request.get(console.url + "/_nicegui/nonsense"),
    ):
        assert reply.status == 404
        assert reply.json() == {"detail": "Not Found"}


@pytest.mark.parametrize(("theme", "ground"), [("dark", "rgb(8, 17, 32)"), ("light", "rgb(237, 241, 246)")])
def test_a_page_has_a_shape_before_its_scripts_have_run(
    browser: Browser, console: ConsoleProcess, theme: str, ground: str
) -> None:
    """A browser without scripts stays at that moment: no white page, in the chosen theme."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(issue_one_time_link(console.data_path, base_url=console.url))
    page.request.post(f"{console.url}/auth/preferences", form={"theme": theme}, max_redirects=0)
    page.goto(console.url + "/records")
    skeleton = page.locator("#skeleton")
    assert "正在加载" in skeleton.inner_text()
    assert skeleton.evaluate("element => getComputedStyle(element).backgroundColor") == ground
    context.close()


def test_the_shape_is_gone_when_the_page_is_there(open_page: OpenPage, console: ConsoleProcess) -> None:
    """It covers nothing then."""
    page = open_page()
    page.goto(console.url + "/records")
    page.wait_for_selector("h1")
    page.wait_for_selector("#skeleton", state="hidden")


MOVED = """() => Object.fromEntries(
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .map(entry => [new URL(entry.name).pathname, entry.transferSize]))"""
MOST_BYTES = 1_500_000  # of the largest page; measured: 1.2 MB, of which scripts and fonts 1.1 MB


@pytest.mark.parametrize("name", drawn("compressed pages", ["live", "records", "map", "quality"]))
def test_scripts_and_styles_travel_once_and_compressed(
    open_page: OpenPage, console: ConsoleProcess, name: str
) -> None:
    """A page's first visit is bounded; the next one moves the page and its data, nothing else."""
    page = open_page()
    page.goto(f"{console.url}/{name}")
    page.wait_for_selector(".ag-row")
    first = page.evaluate(MOVED)
    assert any(path.startswith("/_nicegui/") for path in first)
    assert sum(first.values()) < MOST_BYTES
    page.goto(f"{console.url}/{name}")
    page.wait_for_selector(".ag-row")
    again = page.evaluate(MOVED)
    kept = ("/_nicegui/", "/assets/theme", "/assets/console")
    fixed = {path: moved for path, moved in again.items() if path.startswith(kept)}
    assert len(fixed) > 10
    assert {path: moved for path, moved in fixed.items() if moved} == {}
