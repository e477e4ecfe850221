"""Every page's grids in Chromium at the widths of a telephone, a tablet, half a screen, a screen."""

from __future__ import annotations

import pytest
from console_browser import PAGES, WIDTHS, ConsoleProcess, OpenPage, not_shown, shoot

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
WITH_ROWS = ("live", "records", "alarms", "map", "quality", "cluster")


@pytest.mark.parametrize("name", PAGES)
def test_every_grid_shows_rows_and_lies_over_nothing_at_every_width(
    open_page: OpenPage, console: ConsoleProcess, name: str
) -> None:
    """At 701 to 1100 px grids were 2 px high, and those of the live page lay over each other."""
    page = open_page(width=max(WIDTHS))
    page.goto(f"{console.url}/{name}")
    page.wait_for_selector("h1")
    if name in WITH_ROWS:
        page.wait_for_selector(".ag-center-cols-container .ag-row")
    faults = {}
    for width in WIDTHS:
        faults[width] = not_shown(page, width)
        shoot(page, console, f"grids-{name}-{width}")
    assert {width: told for width, told in faults.items() if told} == {}
