"""axe looks at every page of every role, in both languages and themes: a part of them by turn.

What it finds is named by page, rule and element. A panel that is open is part of its page. Beside it: no button
or link of a page is cut off or lies beside what holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser import PATIENCE_MS, WIDTHS, ConsoleProcess, shoot
from console_city import alarms
from playwright.sync_api import Browser, BrowserContext, Page

from monitor.accounts.one_time_links import issue_one_time_link
from monitor.accounts.roles import AccountRole, ConsolePrincipal, authorise
from monitor.console.layout import NEEDS, PAGES
from tests.rotation import drawn

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
ALARM = "ALARM"
MORE = {
    "faces of a record": "faces?like=r-000001",
    "records open": "records?record=r-000001", "alarms open": f"alarms?alarm={ALARM}", "login": "login",
    "account": "account", "records near": "records?plate=浙A12345&tolerance=distance+1",
    "map plate": "map?plate=浙AWL999", "watch plate": "watch?plate=~浙A8D345&kind=vehicle",
    "no page": "nothing-here", "wrong": "latency?day=yesterday", "rejected": "quality?span=day&reason=bad-time",
}  # fmt: skip
"""Beside the pages of the navigation: what is opened in them, and those that have no place there."""
AT_PAGES = {**{name: name for name in PAGES}, **MORE}


def _may_see(role: AccountRole, name: str) -> bool:
    return name not in NEEDS or authorise(ConsolePrincipal(name="x", roles=frozenset({role})), NEEDS[name])


MEMBERS = [
    (role.value, language, name)
    for role, language, name in product(AccountRole, ("zh", "en"), AT_PAGES)
    if _may_see(role, name) and (name in PAGES or role is AccountRole.OPERATOR)
]
BESIDE = """
() => {
  const name = (e) => `${e.tagName.toLowerCase()} "${(e.innerText || e.getAttribute('aria-label') || '').slice(0, 40)}"`;
  const faults = [];
  for (const one of document.querySelectorAll('.panel button, .panel a, .detail button, .detail a, .q-header button')) {
    const own = one.getBoundingClientRect(), holder = one.closest('.detail, .panel, .q-header').getBoundingClientRect();
    if (!own.width || one.closest('.nicegui-aggrid, .leaflet-container')) continue;
    if (own.right > Math.min(holder.right, innerWidth) + 1 || own.left < holder.left - 1) faults.push(`${name(one)} beside its panel`);
    if (one.scrollWidth > one.clientWidth + 1) faults.push(`${name(one)} cut off`);
  }
  return faults;
}
"""
SETTLED = """
() => document.readyState === 'complete' && !document.querySelector('.ag-overlay-loading-center')
  && !document.getAnimations().some(one => one.playState === 'running' && one.effect.getTiming().iterations !== Infinity)
"""


@pytest.fixture(scope="module")
def context_of(console: ConsoleProcess, browser: Browser) -> Iterator[Callable[[str], BrowserContext]]:
    """A browser that somebody of this role has logged in at, once for the file."""
    made: dict[str, BrowserContext] = {}

    def context(role: str) -> BrowserContext:
        if role not in made:
            made[role] = browser.new_context(timezone_id="Europe/London")
            page = made[role].new_page()
            page.goto(issue_one_time_link(
                console.data_path, name=f"a {role}", roles=[AccountRole(role)], base_url=console.url,
            ))  # fmt: skip
            page.close()
        return made[role]

    yield context
    for one in made.values():
        one.close()


def open_settled(page: Page, console: ConsoleProcess, name: str) -> None:
    """The page with its panel; no transition is under way."""
    alarm = alarms(console.started_ms)[0].alarm_id
    page.goto(f"{console.url}/{quote(AT_PAGES[name].replace(ALARM, quote(alarm, safe='')), safe='?&=%/+')}")
    page.wait_for_selector("h1")
    if name.endswith(" open"):
        page.wait_for_selector(".detail dl")
    page.wait_for_function(SETTLED, timeout=2 * PATIENCE_MS)


@pytest.mark.parametrize(("role", "language", "name"), drawn("axe", MEMBERS, 10))
def test_axe_and_the_eye_find_nothing_on_a_page(
    console: ConsoleProcess, context_of: Callable[[str], BrowserContext], role: str, language: str, name: str
) -> None:
    page = context_of(role).new_page()
    page.set_default_timeout(2 * PATIENCE_MS)
    number = MEMBERS.index((role, language, name))
    width, theme = (1440, 1920, 390)[number % 3], ("dark", "light")[number // 3 % 2]
    page.set_viewport_size({"width": width, "height": 1080 if width == 1920 else WIDTHS[width]})
    page.request.post(f"{console.url}/auth/preferences", form={"language": language, "theme": theme}, max_redirects=0)
    open_settled(page, console, name)
    shoot(page, console, f"axe-{role}-{language}-{theme}-{width}-{name.replace(' ', '-')}")
    # What lies behind an open panel is dimmed, and a page of its own above.
    found = Axe().run(page, ".q-dialog" if name.endswith(" open") else None).response["violations"]
    named = [f"{one['id']} ({one['impact']}): {node['html'][:160]} -- {node['failureSummary'][:200]}"
             for one in found for node in one["nodes"]]  # fmt: skip
    beside = page.evaluate(BESIDE)
    page.close()
    assert named == []
    assert beside == []
