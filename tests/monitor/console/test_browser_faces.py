"""Stored faces that resemble one, in a browser: from a record and from a gallery, each in two clicks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser import WIDTHS, ConsoleProcess, OpenPage, not_shown, now_ms, shoot
from console_city import fill_store
from console_traffic import make_topics
from planted_faces import MODEL, PEOPLE, UNKNOWN, person, plant_faces
from playwright.sync_api import Page, expect

from alarm.lists.importer import ListFile, ListImporter
from alarm.lists.wanted_model import WantedModel
from bus.domain.feature_models import FeatureSettings
from bus.domain.list_import import ListText
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.alarm.lists.excel_files import write_rows
from tests.alarm.lists.made_galleries import text_of
from tests.running_decider import running_decider

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser-approval"), pytest.mark.timeout(240)]
PASSWORD = "correct horse"
WAIT_MS = 60_000
FACES = 40
SCORES = """() => [...document.querySelectorAll('.ag-center-cols-container .ag-row')]
    .sort((one, other) => one.getAttribute('row-index') - other.getAttribute('row-index'))
    .map(row => row.querySelector('[col-id=score]').innerText)"""


@pytest.fixture(scope="module")
def console(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """With a gallery in force; the site asks for a reason."""
    path, started_ms = tmp_path_factory.mktemp("faces"), now_ms()
    fill_store(path, now_ms=started_ms, records=20)
    plant_faces(path, started_ms - 60_000, FACES)
    make_topics(broker.bootstrap)
    AccountStore(path).add("li", PASSWORD, [AccountRole.OPERATOR])
    gallery = path / "wanted.xlsx"
    write_rows(gallery, [("entry", "note", "feature"), *((f"P{at}", "x", text_of(person(at))) for at in range(PEOPLE))])
    with running_decider(broker.bootstrap):
        with closing(ListImporter(BusSettings(bootstrap_servers=broker.bootstrap), "main", "test")) as importer:
            wanted = WantedModel(FeatureSettings().table(), MODEL)
            file = ListFile(gallery, path / "refused.csv", ListText(name="在逃人员"), wanted)
            tried = importer.try_file("wanted", file, lambda *_: None)
            assert importer.put(tried.command, tried.read, lambda *_: None).state == "accepted"
        made = ConsoleProcess(path, broker.bootstrap, started_ms, has_policy=True, most_faces=30)
        yield made
        made.stop()


def enter(page: Page, console: ConsoleProcess, language: str, path: str) -> None:
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.url}/login?language={language}&next={path}")
    page.fill("#name", "li")
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"**{path}")


def choose_case(page: Page, case: str, reason: str, button: str, labels: tuple[str, str]) -> None:
    page.get_by_label(labels[0], exact=True).first.fill(case)
    page.get_by_label(labels[1], exact=True).first.fill(reason)
    page.get_by_role("button", name=button, exact=True).click()


def is_clean(page: Page, console: ConsoleProcess, name: str) -> None:
    """To axe and at any width."""
    shoot(page, console, name)
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    faults = {width: not_shown(page, width) for width in (390, 1440)}
    assert faults == {390: [], 1440: []}, WIDTHS


def test_from_a_face_record_to_where_its_person_was_seen_in_two_clicks(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    """A reason is asked for before anything is found; a search ends at its limit and goes on from there; the
    threshold stands in the address."""
    page = open_page(log_in=False)
    enter(page, console, "zh", "/records")
    page.goto(f"{console.url}/records?kind=face")
    page.locator(".ag-row").nth(1).locator("[col-id=captured_at]").click()
    page.get_by_role("link", name="查找此人").click()
    page.wait_for_url("**/faces?like=*")
    expect(page.get_by_text("不能用照片检索：没有从照片提取特征的插件")).to_be_visible()
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(0)
    choose_case(page, "K-7", "通缉", "确定", ("案件编号", "事由"))
    expect(page.get_by_text("更早的尚未查看")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="继续查看更早的").click()
    expect(page.get_by_text("已全部查看")).to_be_visible(timeout=WAIT_MS)
    rows = page.locator(".ag-center-cols-container .ag-row")
    expect(rows).to_have_count(FACES // PEOPLE - 1, timeout=WAIT_MS)
    expect(page.get_by_text(f"模型 {MODEL}（余弦），阈值 0.6")).to_be_visible()
    is_clean(page, console, "faces-of-a-record")
    scores = page.evaluate(SCORES)
    assert [float(one) for one in scores] == sorted(map(float, scores), reverse=True)

    page.get_by_label("阈值", exact=True).fill("0.999")
    page.get_by_role("button", name="检索", exact=True).click()
    page.wait_for_url("**threshold=0.999*")
    expect(rows).to_have_count(0, timeout=WAIT_MS)
    page.go_back()
    page.get_by_role("button", name="继续查看更早的").click()
    expect(rows).to_have_count(FACES // PEOPLE - 1, timeout=WAIT_MS)
    rows.first.locator("[col-id=captured_at]").click()
    page.wait_for_selector(".detail dl")
    assert "record=face-" in page.url
    page.goto(f"{console.url}/faces?like={UNKNOWN}")
    expect(page.locator(".notice", has_text="本站没有此记录的特征模型")).to_be_visible(timeout=WAIT_MS)
    shoot(page, console, "faces-unknown-model")


def test_from_an_entry_of_a_gallery_to_where_its_person_was_seen(
    console: ConsoleProcess, open_page: OpenPage
) -> None:
    page = open_page(log_in=False)
    enter(page, console, "en", "/lists")
    page.locator(".ag-row", has_text="wanted").first.click()
    page.locator(".ag-row", has_text="P2").first.click()
    page.wait_for_url("**/faces?list=wanted&entry=P2")
    choose_case(page, "K-8", "wanted", "Use it", ("Case", "Reason"))
    page.get_by_role("button", name="Go on with earlier ones").click()
    rows = page.locator(".ag-center-cols-container .ag-row")
    expect(rows).to_have_count(FACES // PEOPLE, timeout=WAIT_MS)
    expect(page.get_by_text("Gallery wanted, entry P2")).to_be_visible()
    expect(page.get_by_text("All looked at")).to_be_visible()
    is_clean(page, console, "faces-of-an-entry-en")
    page.goto(f"{console.url}/faces")
    expect(page.get_by_text("By a record: open a face record")).to_be_visible(timeout=WAIT_MS)
    is_clean(page, console, "faces-none-en")
