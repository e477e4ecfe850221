"""The console as a person sees it: our broker, our store, Chromium. Screenshots go beside the test's data.

One console and one broker for the file; the tests run in their order.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from console_browser import PAGES, ConsoleProcess, OpenPage, now_ms, shoot
from console_city import alarms
from console_traffic import producer, send_events, send_records

from bus.contracts.diverged_ranges import DivergedRange, encode_diverged_range
from bus.contracts.topics import CONTROL_MIRROR_TAILS, DATA_VEHICLE
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]
def test_a_person_logs_in_by_the_form_and_out_again(open_page: OpenPage, console: ConsoleProcess) -> None:
    """A wrong password is reported; after logging out an open page of the session gets no further updates."""
    page = open_page(log_in=False)
    page.goto(console.url + "/map")
    page.fill("#name", "li")
    page.fill("#password", "wrong horse")
    page.click("button[type=submit]")
    page.wait_for_selector("[role=alert]:not([hidden])")
    shoot(page, console, "log-in")
    page.fill("#name", "li")
    page.fill("#password", "correct horse")
    page.click("button[type=submit]")
    page.wait_for_url("**/map")
    second = page.context.new_page()
    second.goto(console.url + "/live")
    second.wait_for_selector(".tile")
    page.click("text=退出")
    page.wait_for_url("**/login*")
    second.wait_for_url("**/login*")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_new_password_ends_open_pages_and_says_so_in_the_persons_language(
    open_page: OpenPage, console: ConsoleProcess, is_told: bool
) -> None:
    """The site's language is Chinese, this person's English. A page that is not notified in time (a
    stalled machine) detects it itself. Regression: it kept its rows behind a box in the site's
    language.
    """
    name, store = f"smith-{now_ms()}", AccountStore(console.data_path)
    store.add(name, "correct horse", [AccountRole.OPERATOR])
    page = open_page(log_in=False)
    page.goto(console.url + "/login?language=en&next=/records")
    page.fill("#name", name)
    page.fill("#password", "correct horse")
    page.click("button[type=submit]")
    page.wait_for_selector(".ag-center-cols-container .ag-row")
    assert "Connection lost" in (page.locator("#popup").text_content() or "")
    if not is_told:
        page.evaluate("window.databus = {...window.databus, leave: () => {}}")
    store.set_password(name, "another horse")
    page.wait_for_url("**/login?ended=1&next=%2Frecords")
    assert "session is over" in page.locator("[role=alert]").inner_text()
    assert page.locator(".ag-row").count() == 0


@pytest.mark.parametrize("name", PAGES)
def test_every_page_shows_its_data_with_one_heading(
    open_page: OpenPage, console: ConsoleProcess, name: str
) -> None:
    """In Chinese, dark, without a word from another host."""
    page = open_page()
    page.goto(f"{console.url}/{name}")
    page.wait_for_selector("h1")
    assert page.locator("h1").count() == 1
    page.wait_for_selector("html[lang=zh-CN]")
    assert page.locator("nav a[aria-current=page]").count() == 1
    rows = ".ag-center-cols-container .ag-row"
    if name == "latency":
        page.wait_for_selector("canvas")
    elif name == "proposals":
        page.wait_for_selector(".proposal table.differences")
    elif name == "faces":  # nobody is looked for yet
        page.wait_for_selector("text=从人脸记录检索")
    elif name != "watch":
        page.wait_for_selector(rows)
    page.wait_for_timeout(600)
    shoot(page, console, name)


def test_the_cluster_what_happened_to_it_and_its_metadata(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """The one broker leads everything; the tree is found by a word and unfolds."""
    page = open_page()
    page.goto(console.url + "/cluster")
    page.wait_for_selector("text=首次查看")
    page.wait_for_selector(".tile dd >> text=1 / 1")
    page.wait_for_selector(f"text={console.bootstrap}")
    shoot(page, console, "cluster")
    page.goto(console.url + "/metadata")
    page.wait_for_selector(".ag-cell >> text=Partition")
    page.fill("input[placeholder]", "data.vehicle")
    page.wait_for_selector(".q-tree >> text=leader_epoch")
    shoot(page, console, "metadata")


def test_a_record_and_an_alarm_appear_without_a_reload(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """From the broker to the row, on top of the list."""
    page = open_page()
    page.goto(console.url + "/live")
    page.wait_for_selector(".ag-row")
    page.evaluate("window.marked = true")
    to = producer(console.bootstrap)
    fresh = msgspec.structs.replace(
        alarms(now_ms())[1],
        alarm_id="live:1",
        rule_name="刚刚命中",
        captured_at_ms=now_ms() - 200,
        raised_at_ms=now_ms(),
    )
    send_records(to, now_ms=now_ms(), count=5, seed=77)
    send_events(to, [fresh])
    page.wait_for_selector(".ag-row[row-index='0'] >> text=刚刚命中")
    page.wait_for_selector("[row-id='t-77-4']")
    assert page.evaluate("window.marked")
    page.click("text=刚刚命中")
    page.wait_for_selector(".detail >> text=告警详情")
    page.wait_for_timeout(600)
    shoot(page, console, "alarm-detail")


def test_the_map_draws_roads_checkpoints_and_a_growing_trajectory(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """Without tiles; the list beside it says the states in words."""
    page = open_page()
    page.goto(console.url + "/map?target=w-stolen")
    page.wait_for_selector(".city-map canvas")
    assert page.locator(".city-map img.leaflet-tile").count() == 0
    page.wait_for_selector(".leaflet-tooltip-pane >> text=/^\\d+\\. /")
    drawn = page.locator(".leaflet-tooltip-top").count()
    assert 1 < drawn <= 12
    hits = page.locator(".target[aria-pressed=true]").inner_text()
    before = int(hits.rpartition(" 次命中")[0].split()[-1])
    fresh = msgspec.structs.replace(
        alarms(now_ms())[1],
        alarm_id="map:1",
        checkpoint_id="330100#5#5#0",
        captured_at_ms=now_ms(),
        raised_at_ms=now_ms(),
    )
    send_events(producer(console.bootstrap), [fresh])
    page.wait_for_selector(".city-map .pulse")
    page.wait_for_selector(f".target[aria-pressed=true] >> text={before + 1} 次命中")
    page.wait_for_timeout(600)
    shoot(page, console, "map-trajectory")


def test_search_finds_a_plate_and_shows_its_pictures(open_page: OpenPage, console: ConsoleProcess) -> None:
    """By Enter; the row opens its record; the picture is served from here."""
    page = open_page()
    page.goto(console.url + "/records")
    page.wait_for_selector("text=共 600 条")
    with_picture = page.locator(".ag-row:has(img.thumb)").first
    plate = with_picture.locator("[col-id=plate_number]").inner_text()
    page.get_by_label("车牌（* 任意，? 一位）").fill(plate[:-1] + "*" if plate else "浙A*")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "!document.body.innerText.includes('共 600 条') && document.body.innerText.includes('共 ')"
    )
    page.locator(".ag-row:has(img.thumb)").first.locator("[col-id=captured_at]").click()
    page.wait_for_selector(".detail figure img")
    page.wait_for_function("document.querySelector('.detail figure img').naturalWidth > 0")
    assert "卡口编号" in page.locator(".detail pre").inner_text()
    page.wait_for_timeout(600)
    shoot(page, console, "record-detail")


def test_a_record_that_only_this_site_had_says_so_in_both_languages_and_is_counted(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """In the list, in its panel, and on the page of the mirror, though none answers."""
    part = DivergedRange(
        epoch=5, topic=DATA_VEHICLE, partition=0, offset=0, end_offset=2, ids=("r-000000", "r-elsewhere")
    )
    to = producer(console.bootstrap)
    to.produce(CONTROL_MIRROR_TAILS, key=part.key, value=encode_diverged_range(part))
    assert to.flush(20) == 0
    page = open_page()
    page.wait_for_function(
        "fetch('/api/records/r-000000').then(r => r.json()).then(row => row.tail_epoch === 5)"
    )
    for language, mark, counted in (
        ("zh", "站点纪元 5 切换时本站独有的记录", "2 条"), ("en", "Own tail of site epoch 5", "2 records"),
    ):  # fmt: skip
        page.request.post(
            f"{console.url}/auth/preferences", form={"language": language}, max_redirects=0
        )
        page.goto(console.url + "/records?record=r-000000")
        page.wait_for_selector(f".detail >> text={mark}")
        shoot(page, console, f"record-own-tail-{language}")
        page.wait_for_selector(".ag-cell[col-id=tail_epoch] >> text=5")
        page.goto(console.url + "/mirror")
        page.wait_for_selector(f"dd >> text={counted}")
        shoot(page, console, f"mirror-own-tail-{language}")
    page.request.post(f"{console.url}/auth/preferences", form={"language": "zh"}, max_redirects=0)


def test_a_target_is_put_on_the_watch_list_and_taken_off(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """What the list shows came back from the broker."""
    page = open_page()
    page.goto(console.url + "/watch")
    page.get_by_label("名称").fill("蓝色轿车")
    page.get_by_label("车牌（* 任意，? 一位，~ 含误识；用逗号分隔）").fill("浙AWL999，浙A88K66")
    page.click("text=增加条件")
    page.get_by_label("取值（多个用逗号分隔）").fill("蓝色")
    page.get_by_role("button", name="布控", exact=True).click()
    page.wait_for_selector(".ag-row >> text=蓝色轿车")
    page.wait_for_selector(".ag-row >> text=车牌号码 = 浙AWL999 / 浙A88K66")
    page.wait_for_timeout(400)
    shoot(page, console, "watch-rule")
    page.locator(".ag-row", has_text="蓝色轿车").locator("[col-id=remove]").click()
    page.locator(".dialog-card").get_by_role("button", name="撤控").click()
    page.wait_for_selector(".ag-row >> text=蓝色轿车", state="detached")


def test_a_file_changes_the_register_after_it_was_tried(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """A fault is told with its line and nothing can be applied; a good file is shown first; what
    the table shows afterwards came back from the broker."""
    page = open_page()
    page.goto(console.url + "/register")
    page.wait_for_selector(".ag-row")
    head = "kind,id,name,name_en,district,latitude,longitude,checkpoint,device_kind,server,line\n"
    bad = head + "device,10.9.9.9,,,,,,nowhere,vehicle,,\n"
    files = page.locator("input[type=file]")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="选择文件").click()
    chooser.value.set_files({"name": "places.csv", "mimeType": "text/csv", "buffer": bad.encode()})
    page.wait_for_selector("text=没有卡口“nowhere”")
    assert page.get_by_role("button", name="应用", exact=True).count() == 0
    shoot(page, console, "register-fault")
    good = head + "district,new-town,新城,New Town,,,,,,,\n"
    files.set_input_files({"name": "places.csv", "mimeType": "text/csv", "buffer": good.encode()})
    page.wait_for_selector("text=将新增 1 条")
    shoot(page, console, "register-tried")
    page.get_by_label("编号、名称、地址……").fill("new-town")
    page.get_by_role("button", name="应用", exact=True).click()
    page.wait_for_selector(".ag-row >> text=新城")
    page.wait_for_timeout(400)
    shoot(page, console, "register-applied")


def test_a_viewer_sees_the_list_and_cannot_change_it(open_page: OpenPage, console: ConsoleProcess) -> None:
    """No form, no button; the API would refuse as well (tested there)."""
    page = open_page(log_in=False)
    page.goto(console.url + "/watch")
    page.fill("#name", "wang")
    page.fill("#password", "only looking")
    page.click("button[type=submit]")
    page.wait_for_selector("text=您没有布控权限")
    assert page.get_by_role("button", name="布控", exact=True).count() == 0


def test_language_and_theme_change_at_a_switch_and_stay(
    open_page: OpenPage, console: ConsoleProcess
) -> None:
    """English, light, on every page after it."""
    page = open_page()
    page.goto(console.url + "/live")
    page.click("text=English")
    page.wait_for_selector("text=Live records")
    page.click("button:has-text('Light')")
    page.wait_for_selector("body.body--light")
    page.goto(console.url + "/quality")
    page.wait_for_selector("h1 >> text=Quality")
    page.wait_for_selector(".ag-row")
    page.wait_for_selector("html[lang=en]")
    page.wait_for_timeout(600)
    shoot(page, console, "quality-light-english")
    page.goto(console.url + "/live")
    page.wait_for_selector(".ag-row")
    page.wait_for_timeout(600)
    shoot(page, console, "live-light-english")


def test_every_way_is_reachable_by_keyboard(open_page: OpenPage, console: ConsoleProcess) -> None:
    """Skip link first, then header, navigation, content."""
    page = open_page()
    page.goto(console.url + "/map")
    page.wait_for_selector(".ag-row")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || '').trim().split('\\n')[0]"
            )
        )
    assert {"跳到内容", "退出", "English", "全图"} <= reached


def test_pages_say_that_the_bus_is_away_and_go_on_when_it_is_back(
    open_page: OpenPage, console: ConsoleProcess, broker: RunningBroker
) -> None:
    """kill -9 of the broker under an open page; no reload. Last in this file."""
    page: Any = open_page()
    page.goto(console.url + "/live")
    page.wait_for_selector(".ag-row")
    page.evaluate("window.marked = true")
    broker.kill()
    page.wait_for_selector(".notice >> text=总线无法访问")
    broker.process = broker.restart().process
    page.wait_for_selector(".notice >> text=总线无法访问", state="hidden")
    send_records(producer(console.bootstrap), now_ms=now_ms(), count=3, seed=88)
    page.wait_for_selector("[row-id='t-88-2']")
    assert page.evaluate("window.marked")
