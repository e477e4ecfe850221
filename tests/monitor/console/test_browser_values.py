"""What the pages say, in both languages: values, dates, clocks, gaps, offered plates, processes.

One console and one broker for the file. Screenshots go beside the test's data.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from console_browser import PAGES, ConsoleProcess, OpenPage, now_ms, shoot
from console_city import MINUTE_MS, PLANTED, alarms, plant_disagreement
from playwright.sync_api import Page, expect

from deploy.supervisor.state_file import StateFile
from tests.rotation import drawn

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
LANGUAGES = drawn("language of values", ["zh", "en"])
HAN = re.compile(r"[\u4e00-\u9fff]+")


def in_english(page: Page, console: ConsoleProcess) -> None:
    """By the switch, as a person does it."""
    page.goto(console.url + "/live")
    page.click("text=English")
    page.wait_for_selector("html[lang=en]")


def test_english_pages_are_english_throughout(open_page: OpenPage, console: ConsoleProcess) -> None:
    """Values, faces, names of places and of numbers. What people wrote (plates, names of targets)
    and the switch to the other language stay."""
    page = open_page()
    in_english(page, console)
    theirs = ["中文", "浙", *{a.rule_name for a in alarms(now_ms())}, "刚刚命中"]
    for name in PAGES:
        page.goto(f"{console.url}/{name}")
        page.wait_for_selector("canvas" if name in ("latency", "map") else ".ag-row, .dialog-card, h1")
        page.wait_for_timeout(900)
        shoot(page, console, f"english-{name}")
        if name == "metadata":
            continue  # the records of the topics as they are
        # The rejected records' own text is shown as it came.
        page.evaluate("document.querySelectorAll('[col-id=body]').forEach((cell) => cell.remove())")
        text = page.evaluate("document.body.innerText")
        for word in sorted(theirs, key=len, reverse=True):
            text = text.replace(word, "")
        assert not HAN.findall(text), (name, HAN.findall(text)[:5])


def test_a_record_opens_in_english_with_names_and_values(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """The device's original text is below it, unchanged."""
    page = open_page()
    in_english(page, console)
    page.goto(console.url + "/records")
    row = page.locator(".ag-row:has(img.thumb):has-text('浙')").first
    row.locator("[col-id=captured_at]").click()
    page.wait_for_selector(".detail figure img")
    facts = page.locator(".detail .facts").inner_text()
    assert not HAN.findall(facts.replace("浙", "")), facts
    assert "Tissue box\nno" in facts
    assert "Vehicle" in page.locator(".detail figcaption").first.inner_text()
    page.wait_for_timeout(500)
    shoot(page, console, "english-record")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_clock_is_listed_and_the_axis_is_logarithmic(
    open_page: OpenPage, console: ConsoleProcess, language: str
) -> None:
    """Both wrong devices with by how much; what is drawn stays below a minute."""
    page = open_page()
    if language == "en":
        in_english(page, console)
    page.goto(console.url + "/latency")
    behind, ahead = ("慢 3.1 小时", "快") if language == "zh" else ("3.1 h behind", "ahead")
    page.wait_for_selector(f".ag-row:has-text('10.7.0.1') >> text={behind}")
    page.wait_for_selector(f".ag-row:has-text('10.7.0.2') >> text={ahead}")
    page.wait_for_timeout(500)
    shoot(page, console, f"latency-clocks-{language}")
    options = chart_options(page)
    assert options["yAxis"][0]["type"] == "log"
    points = [point[1] for one in options["series"] for point in one["data"] if point[1] is not None]
    assert 0 < max(points) < 60_000


def chart_options(page: Page) -> Any:
    """What the first chart of the page draws."""
    return page.evaluate(
        """(() => {
            const elements = [...document.querySelectorAll("[role=img]")];
            const drawn = elements.map((e) => getElement(Number(e.id.slice(1)))?.chart).find(Boolean);
            const { yAxis, series } = drawn.getOption();
            return { yAxis: yAxis.map((a) => ({ type: a.type })), series: series.map((s) => ({ data: s.data })) };
        })()"""
    )


def test_the_quality_chart_has_a_gap_where_nothing_was_counted(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """An empty hour in the middle of six."""
    page = open_page()
    page.goto(console.url + "/quality")
    page.wait_for_selector(".ag-row")
    page.wait_for_selector("canvas")
    page.wait_for_timeout(600)
    shoot(page, console, "quality-gap")
    for one in chart_options(page)["series"]:
        gaps = [point[0] for point in one["data"] if point[1] is None]
        assert len(gaps) == 1


def test_numbers_that_disagree_are_said_and_a_device_has_its_own_curves(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """A planted device, chosen by a click in the table."""
    plant_disagreement(console.data_path, (now_ms() // MINUTE_MS - 20 * 60) * MINUTE_MS)
    page = open_page()
    in_english(page, console)
    page.goto(console.url + "/quality?span=day")
    page.wait_for_selector("text=valid − stored − duplicates = +2")
    page.locator(f".ag-cell:has-text('{PLANTED}')").first.click()
    page.wait_for_url(f"**camera={PLANTED}*")
    page.wait_for_selector("text=Sent 13 · arrived 12 = valid 6 + rejected 2")
    page.wait_for_timeout(500)
    shoot(page, console, "quality-disagree")
    drawn = [[point[1] for point in one["data"]][:1] for one in chart_options(page)["series"]]
    assert drawn == [[13], [6], [12], [9], [2], [3], [1], [3]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_moment_is_written_year_first_and_chosen_from_a_calendar(
    open_page: OpenPage, console: ConsoleProcess, language: str
) -> None:
    """The browser's own field wrote mm/dd/yyyy in every language of the page."""
    page = open_page()
    if language == "en":
        in_english(page, console)
    page.goto(console.url + "/records")
    label, calendar = ("起", "日历") if language == "zh" else ("From", "Calendar")
    field = page.get_by_label(label, exact=True).first
    field.fill("2026-11-2x")
    page.wait_for_selector(".q-field--error")
    field.fill("2026-11-05 08:30")
    page.wait_for_selector(".q-field--error", state="detached")
    page.get_by_label(calendar).first.click()
    page.wait_for_selector(".q-date")
    page.wait_for_timeout(400)
    shoot(page, console, f"calendar-{language}")
    page.locator(".q-date__calendar-item >> text='17'").first.click()
    page.wait_for_function("[...document.querySelectorAll('input')].some(i => i.value.startsWith('2026-11-17 '))")


def test_a_part_of_a_plate_offers_whole_plates(open_page: OpenPage, console: ConsoleProcess) -> None:
    """Before: an empty grid without a word."""
    page = open_page()
    page.goto(console.url + "/records")
    page.wait_for_selector("text=共 600 条")
    plates = page.locator(".ag-row [col-id=plate_number]").all_inner_texts()
    plate = next(text for text in plates if len(text) > 5)
    field = page.get_by_label("车牌（* 任意，? 一位）")
    field.fill(plate[2:6])
    page.keyboard.press("Enter")
    page.wait_for_selector(f".offer >> text=未找到“{plate[2:6]}”")
    shoot(page, console, "plates-offered")
    page.locator(f".offer button:has-text('{plate}')").first.click()
    page.wait_for_selector(f".ag-row >> text={plate}")
    page.wait_for_selector(".offer", state="hidden")
    field.fill("QQQQQ")
    page.keyboard.press("Enter")
    page.wait_for_selector(".offer >> text=也没有车牌含有它")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_system_page_lists_every_process_of_the_product(
    open_page: OpenPage, console: ConsoleProcess, language: str
) -> None:
    """What the supervisor's own state says, and that there is none where there is none."""
    page = open_page()
    if language == "en":
        in_english(page, console)
    page.goto(console.url + "/system")
    page.wait_for_selector("text=systemd")
    state, begun_ms = StateFile(console.data_path, {}), now_ms()
    state.acquire()
    role = {"state": "running", "pid": 4711, "restarts": 2, "since_ms": begun_ms}
    roles = dict.fromkeys(("broker-1", "broker-2", "edge", "dispatcher", "console", "city"), role)
    state.write(roles | {"streams": role | {"state": "restarting", "pid": None}})
    words = ("监管进程", "重启中") if language == "zh" else ("Supervisor", "restarting")
    for word in words:
        page.wait_for_selector(f".ag-row >> text={word}")
    assert page.locator(".ag-row:has-text('4711')").count() == len(roles)
    page.wait_for_timeout(300)
    shoot(page, console, f"system-{language}")
    state.release()
    page.wait_for_selector("text=systemd")


def test_an_open_incident_is_taken_in_hand_with_a_click_and_the_page_says_who(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """As the command and the API do."""
    page = open_page()
    page.goto(console.url + "/system")
    cell = page.locator(".ag-row:has-text('10.1.0.7') .ag-cell[col-id='acknowledged_by']")
    cell.filter(has_text="确认").click()
    page.wait_for_selector("text=已确认处理")
    expect(cell).not_to_have_text("确认")
