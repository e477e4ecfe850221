"""From a record of any plate: its pictures as large as the screen, its way, a rule for it; and yesterday.

One console and one broker for the file. Screenshots go beside the test's data.
"""

from __future__ import annotations

import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from console_browser import PATIENCE_MS, ConsoleProcess, OpenPage, now_ms, shoot
from console_city import MINUTE_MS, ZONE, picture, wire_time
from playwright.sync_api import Browser, Page, expect

from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
PLATE, MASKED, NEAR = "浙A0W4T7", "浙A0W4?7", "浙A0W5T7"
WORDS = {
    "zh": {"nothing": "未找到", "tolerance": "容差", "near": "允许一个字符之差", "search": "检索", "whole": "一个完整车牌",
           "plate": "车牌（* 任意，? 一位）", "watch": "布控此车牌", "rule_plate": "用逗号分隔"},
    "en": {"nothing": "Nothing found", "tolerance": "Tolerance", "near": "one character may differ", "search": "Search",
           "whole": "one whole plate", "plate": "Plate (* = anything, ? = one)", "watch": "Watch this plate",
           "rule_plate": "misread, too; commas"},
}  # fmt: skip
WAY = ("330100#0#0#0", "330100#0#1#0", "330100#0#1#0", "330100#1#1#0", "330100#2#1#0")
KEYS = ("车辆图片地址", "车牌图片地址", "场景图片地址")


@pytest.fixture(scope="module", autouse=True)
def never_watched(console: ConsoleProcess) -> None:
    """A car that no rule knows, seen five times; once its plate was read in part; three pictures each."""
    store = open_store(f"sqlite://{console.data_path}/store/records.db", "write")
    begin_ms = now_ms() - 30 * MINUTE_MS
    store.apply(
        StoreBatch(rows=[_seen(console, n, place, begin_ms + n * MINUTE_MS) for n, place in enumerate(WAY)]), []
    )
    store.close()


def _seen(console: ConsoleProcess, number: int, place: str, at_ms: int) -> RecordRow:
    folder = Path(console.data_path) / "pictures"
    pictures = {key: picture(f"way-{number}-{i}", folder) for i, key in enumerate(KEYS)}
    plate = MASKED if number == 3 else PLATE
    body = {"卡口编号": place, "车牌号码": plate, "抓拍时间": wire_time(at_ms), **pictures}
    return RecordRow(
        record_id=f"way-{number}", kind="vehicle", checkpoint_id=place, district_id="d0", camera_ip="10.1.0.1",
        recognizer_ip="", captured_at_ms=at_ms, received_at_ms=at_ms + 80, plate_number=plate,
        plate_key=PLATE if plate == PLATE else "", picture_url=pictures[KEYS[0]], body=msgspec.json.encode(body),
    )  # fmt: skip


def shown_size(page: Page) -> tuple[float, float]:
    box = page.locator(".viewer .frame img").bounding_box()
    assert box is not None
    return box["width"], box["height"]


@pytest.mark.parametrize(("language", "width"), [("zh", 1440), ("en", 1920), ("zh", 390)])
def test_a_plate_that_may_have_been_read_otherwise_is_searched_and_watched_in_two_clicks(
    open_page: OpenPage, console: ConsoleProcess, language: str, width: int
) -> None:
    """All of the question stands in the address: back, reload. From a hit to the rule's form: two clicks."""
    page = open_page(width=width)
    if language == "en":
        page.goto(console.url + "/records")
        page.click("button:has-text('English')")
        page.wait_for_selector("h1 >> text=Records")
    words = WORDS[language]
    page.goto(f"{console.url}/records?plate={quote(NEAR)}")
    page.wait_for_selector(f".offer >> text={words['nothing']}")
    page.get_by_label(words["tolerance"], exact=True).click()
    page.locator(".q-menu").get_by_text(words["near"], exact=True).click()
    page.get_by_role("button", name=words["search"], exact=True).click()
    page.wait_for_url(f"**/records?tolerance=distance+1&plate={quote(NEAR)}")
    is_wide = width > 700  # a telephone shows cards
    found = page.locator(".ag-center-cols-container .ag-row [col-id=plate_number]" if is_wide else ".ag-row .card")

    def five_are_shown() -> None:
        expect(found).to_contain_text([PLATE, MASKED, PLATE, PLATE, PLATE], timeout=PATIENCE_MS)

    five_are_shown()
    shoot(page, console, f"search-distance-{language}-{width}")

    page.get_by_label(words["plate"], exact=True).fill("*0W4")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"[role=alert]:has-text('{words['whole']}')")
    shoot(page, console, f"search-refused-{language}-{width}")
    page.go_back()
    five_are_shown()
    page.reload()
    five_are_shown()
    expect(page.locator("[role=alert]:visible")).to_have_count(0)

    found.first.click()
    page.locator(".detail").get_by_text(words["watch"], exact=True).click()
    page.wait_for_url(f"**/watch?plate={quote(PLATE)}&kind=vehicle")
    expect(page.get_by_label(words["rule_plate"])).to_have_value(PLATE, timeout=PATIENCE_MS)


@pytest.mark.parametrize("width", [1440, 390])
def test_pictures_enlarge_and_are_left_by_keys(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """By click and by key; the arrows step, Escape closes the picture and not the record below it."""
    page = open_page(width=width)
    page.goto(f"{console.url}/records?record=way-0")
    small = page.locator(".detail .enlarge")
    expect(small).to_have_count(3)
    small.first.click()
    viewer = page.locator("dialog.viewer")
    image = viewer.locator(".frame img")
    expect(viewer).to_be_visible()
    expect(image).to_have_attribute("alt", "车辆图片")
    assert shown_size(page)[0] > width * 0.6
    shoot(page, console, f"picture-{width}")
    sources = [image.get_attribute("src")]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        sources.append(image.get_attribute("src"))
    assert len(set(sources[:3])) == 3
    assert sources[3] == sources[1]
    expect(viewer.locator(".count")).to_have_text("2 / 3")
    viewer.get_by_role("button", name="原始大小").click()
    assert shown_size(page) == (96, 60)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    page.keyboard.press("Escape")
    expect(viewer).to_have_count(0)
    expect(page.locator(".detail")).to_be_visible()
    expect(small.nth(1)).to_be_focused()  # whoever looked on stands where he looked last
    page.keyboard.press("Enter")
    expect(viewer).to_be_visible()
    viewer.get_by_role("button", name="关闭").click()
    expect(viewer).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_be_hidden()


def test_a_plate_that_no_rule_knows_has_its_way_on_the_map(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Five sightings, two of them at one place: four stops, the newest first, numbered as on the map."""
    page = open_page()
    page.goto(f"{console.url}/records?record=way-0")
    page.locator(".detail").get_by_role("link", name="车牌轨迹").click()
    page.wait_for_url("**/map?plate=**")
    stops = page.locator(".stops .stop")
    expect(stops).to_have_count(4)
    expect(stops.nth(0)).to_contain_text("4.")
    expect(stops.nth(1)).to_contain_text(MASKED)  # and only there
    expect(page.locator(".stops .chip.warning")).to_have_count(1)
    expect(stops.nth(2)).to_contain_text("2 条记录")
    expect(page.locator(".city-map .leaflet-tooltip-top", has_text="4.")).to_have_count(1)
    shoot(page, console, "way-of-a-plate")
    stops.nth(0).get_by_role("link", name="查看记录").click()
    page.wait_for_selector(f".detail >> text={PLATE}")
    page.go_back()
    page.get_by_role("button", name="昨天").click()
    page.wait_for_url("**from=**until=**")
    page.get_by_role("button", name="关闭轨迹").click()
    expect(page.locator(".stops")).to_be_hidden()


def test_a_masked_plate_says_that_it_may_be_several_and_is_watched_as_a_part_of_one(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """The way shows whatever fits; where too little was read, the page says why no rule can be put."""
    page = open_page(width=390)
    page.goto(f"{console.url}/map?plate={quote(MASKED)}")
    expect(page.locator(".stops .stop")).to_have_count(4)
    expect(page.get_by_text("可能涉及多辆车")).to_be_visible()
    expect(page.get_by_role("link", name="布控此车牌")).to_be_visible()
    page.wait_for_timeout(500)
    shoot(page, console, "way-of-a-masked-plate-390")
    page.goto(f"{console.url}/map?plate={quote('浙?????7')}")
    expect(page.get_by_text("此车牌无法布控")).to_be_visible()
    page.goto(f"{console.url}/map?plate={quote('无牌')}")
    expect(page.get_by_text("该文字不是车牌")).to_be_visible()


def test_this_plate_is_watched_from_its_record(open_page: OpenPage, console: ConsoleProcess) -> None:
    """The form is filled in; one press puts the rule."""
    page = open_page()
    page.goto(f"{console.url}/records?record=way-0")
    page.locator(".detail").get_by_role("link", name="布控此车牌").click()
    page.wait_for_url("**/watch?plate=**")
    expect(page.get_by_label("车牌（* 任意，? 一位，~ 含误识；用逗号分隔）")).to_have_value(PLATE)
    shoot(page, console, "watch-this-plate")
    page.get_by_role("button", name="布控", exact=True).click()
    page.locator(".ag-row", has_text=PLATE).wait_for()
    page.wait_for_url("**/watch")
    page.goto(f"{console.url}/watch?plate={quote('浙?????7')}")
    expect(page.locator(".notice", has_text="条件过宽")).to_be_visible()


def test_the_evidence_of_a_record_and_of_a_way_is_one_file_with_a_page_to_print(
    open_page: OpenPage, console: ConsoleProcess, browser: Browser, tmp_path: Path
) -> None:
    """From the record's panel and from the map; the page shows its pictures without a server."""
    page = open_page()
    for address, records in (("records?record=way-0", 1), (f"map?plate={quote(PLATE)}", len(WAY))):
        page.goto(f"{console.url}/{address}")
        with page.expect_download() as file:
            page.get_by_role("link", name="证据包").click()
        with zipfile.ZipFile(file.value.path()) as packed:
            packed.extractall(tmp_path / str(records))
        printed = browser.new_page()  # without a console beside it
        printed.goto(f"file://{tmp_path}/{records}/index.html")
        assert printed.locator("section h2").count() == records + 1
        broken = "found => found.filter(one => !one.naturalWidth).length"
        assert printed.locator("img").count() == records * len(KEYS)
        assert printed.locator("img").evaluate_all(broken) == 0
        printed.screenshot(path=str(console.data_path / "screenshots" / f"evidence-{records}.png"), full_page=True)
        printed.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_what_a_rule_would_have_hit_is_shown_before_it_is_put(
    open_page: OpenPage, console: ConsoleProcess, width: int
) -> None:
    """By day and place; nothing is put by that, and another rule begins anew."""
    page = open_page(width=width)
    page.goto(f"{console.url}/watch")
    before = page.request.get(f"{console.url}/api/watch").json()["count"]
    plates = page.get_by_label("车牌（* 任意，? 一位，~ 含误识；用逗号分隔）")
    plates.fill(PLATE)
    page.get_by_role("button", name="预览", exact=True).click()
    expect(page.locator(".preview")).to_contain_text("最近 7 天：命中 4 次，3 个卡口")
    assert page.locator(".preview-days .mono").count() == 7
    shoot(page, console, f"watch-preview-{width}")
    plates.fill("浙?????7")
    page.get_by_role("button", name="预览", exact=True).click()
    expect(page.locator(".q-notification", has_text="条件过宽")).to_be_visible()
    plates.fill("沪Z00001")
    page.get_by_role("button", name="预览", exact=True).click()
    expect(page.locator(".preview")).to_contain_text("最近 7 天：命中 0 次")
    assert page.request.get(f"{console.url}/api/watch").json()["count"] == before


def test_yesterday_is_one_press_on_both_searches_and_on_the_latency(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """By the site's clock, not the browser's: that one stands in London."""
    page = open_page()
    for name in ("records", "alarms"):
        page.goto(f"{console.url}/{name}")
        page.get_by_role("button", name="昨天").click()
        page.wait_for_url("**from=**until=**")
        today = datetime.now(ZONE).date()
        expect(page.get_by_label("起", exact=True)).to_have_value(f"{today - timedelta(1)} 00:00")
        expect(page.get_by_label("止", exact=True)).to_have_value(f"{today} 00:00")
        shoot(page, console, f"yesterday-{name}")
        with page.expect_download() as file:
            page.get_by_role("button", name="导出 JSON 行").click()
        assert file.value.suggested_filename == f"{name}.jsonl"
    page.goto(f"{console.url}/latency")
    page.get_by_role("button", name="昨天").click()
    page.wait_for_url(f"**day={datetime.now(ZONE).date() - timedelta(1)}")
