"""`./databus lists` against our own broker and a decider: a file is in force when it was answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result

from alarm.asked_answer import UNDECIDED_STATUS
from alarm.lists.reader import ListReader
from bus.settings import BusSettings, SiteSettings
from deploy.product.lists_cli import mount
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.running_decider import running_decider

pytestmark = pytest.mark.slow

Run = Callable[..., Result]
HEAD = "号牌号码,备注,日期\n"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    with running_broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        yield BusSettings(bootstrap_servers=broker.bootstrap)


@pytest.fixture
def run(bus: BusSettings) -> Run:
    app = typer.Typer()
    mount(app)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["lists", *words], obj=SimpleNamespace(bus=bus, site=SiteSettings()))

    return run


@pytest.fixture
def decided(bus: BusSettings) -> Iterator[None]:
    with running_decider(bus.bootstrap_servers):
        yield


@pytest.fixture
def reader(bus: BusSettings, tmp_path: Path) -> Iterator[ListReader]:
    with closing(ListReader(bus, "test", tmp_path / "tables")) as found:
        yield found


def written(path: Path, *lines: str) -> str:
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="gb18030")
    return str(path)


def plates(count: int, first: int = 0) -> list[str]:
    return [f"浙A{number:05d},被盗,2026/1/2" for number in range(first, first + count)]


def found(reader: ListReader, list_id: str, plate: str) -> tuple[int, str, str] | None:
    line = reader.catch_up()[list_id].find(plate)
    return None if line is None else (line.number, line.note, line.date)


def test_a_file_is_imported_looked_at_changed_and_ended(
    run: Run, decided: None, reader: ListReader, tmp_path: Path
) -> None:
    file = written(tmp_path / "stolen.csv", *plates(30), "浙A00003,again,", "张三,,")
    first = json.loads(run("import", file, "--list", "stolen", "--name", "被盗车辆", "--json").stdout)
    assert (first["lines"], first["refused"], first["answer"]["state"]) == (30, 2, "accepted")
    assert first["difference"]["added"] == 30
    assert first["refused_reasons"] == {"twice": 1, "not_a_plate": 1}
    report = Path(first["report"]).read_text(encoding="utf-8-sig").splitlines()
    assert report[1].startswith("32,浙A00003 | again | ,the plate stands already in line 5,")
    assert found(reader, "stolen", "浙A00003") == (5, "被盗", "2026-01-02")

    dry = json.loads(run("import", written(tmp_path / "b.csv", *plates(28, 1), "浙A00002,,"),
                         "--list", "stolen", "--dry-run", "--json").stdout)  # fmt: skip
    assert (dry["difference"]["removed_plates"], dry["refused"]) == (["浙A00000", "浙A00029"], 1)
    assert found(reader, "stolen", "浙A00000") is not None

    assert run("add-line", "stolen", "沪b-12345", "--note", "new").exit_code == 0
    assert found(reader, "stolen", "沪B12345") == (0, "new", "")
    assert run("remove-line", "stolen", "浙A00004").exit_code == 0
    assert found(reader, "stolen", "浙A00004") is None
    gone = run("remove-line", "stolen", "浙A00004")
    assert (gone.exit_code, gone.stderr) == (1, "not on stolen: 浙A00004\n")

    shown = json.loads(run("show", "stolen", "--json").stdout)
    assert (shown["name"], shown["lines"], shown["changed_lines"]) == ("被盗车辆", 30, 2)
    assert "被盗车辆" in run("show").stdout
    assert run("end", "stolen").exit_code == 0
    assert "stolen" not in reader.catch_up()
    assert (run("end", "stolen").exit_code, run("add-line", "stolen", "沪B12345").exit_code) == (1, 1)


def test_a_file_that_lacks_a_fifth_of_the_lines_waits_for_a_yes(
    run: Run, decided: None, reader: ListReader, tmp_path: Path
) -> None:
    run("import", written(tmp_path / "a.csv", *plates(10)), "--list", "half")
    file = written(tmp_path / "b.csv", *plates(7), *plates(3, 100))
    refused = run("import", file, "--list", "half")
    assert refused.exit_code == 1
    assert "3 of 10 lines would go; if this is meant, say --yes" in refused.stderr
    assert found(reader, "half", "浙A00009") is not None
    meant = run("import", file, "--list", "half", "--yes", "--tolerance", "look-alikes")
    assert (meant.exit_code, meant.output.splitlines()[-1]) == (0, "half is in force: 10 lines")
    assert found(reader, "half", "浙A00009") is None
    assert found(reader, "half", "浙AOOO01") == (3, "被盗", "2026-01-02")
    assert reader.catch_up()["half"].record.tolerance == "look-alikes"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        ("姓名,电话\n张三,13812345678\n".encode(), "no column holds plates"),
        ("号牌号码\n张三\n".encode(), "no line of"),
        (b"PK\x03\x04 no workbook", "cannot be read as a sheet"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_list_changes_nothing_and_says_why(
    run: Run, tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    refused = run("import", str(path), "--list", "none")
    assert (refused.exit_code, refused.stderr.startswith("nothing is imported: ")) == (1, True)
    assert text in refused.stderr


def test_a_file_of_two_gigabytes_is_refused_by_its_size(run: Run, tmp_path: Path) -> None:
    """Not a byte of it is read: it has none."""
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    refused = run("import", str(path), "--list", "none")
    assert (refused.exit_code, "has 2048 MiB, and 512 MiB may be imported" in refused.stderr) == (1, True)


def test_what_nobody_decides_is_not_said_to_be_in_force(
    run: Run, reader: ListReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.client.kafka.command_client.ANSWER_S", 0.5)
    monkeypatch.setattr("bus.client.kafka.command_client.CommandClient.request.__defaults__", (0.5,))
    waits = run("import", written(tmp_path / "a.csv", *plates(3)), "--list", "late", "--json")
    assert (waits.exit_code, json.loads(waits.stdout)["state"]) == (UNDECIDED_STATUS, "undecided")
    assert "late" not in reader.catch_up()


@pytest.mark.parametrize(
    "words",
    [
        ("--list", "a/b"), ("--list", "x", "--tolerance", "loose"), ("--list", "x", "--severity", "red"),
        ("--list", "x", "--date", "soon"), ("--list", "x", "--renewal-days", "-1"),
    ],
)  # fmt: skip
def test_words_that_cannot_be_meant_are_refused_by_their_option(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused = run("import", written(tmp_path / "a.csv", *plates(3)), *words)
    assert (refused.exit_code, words[-2] in refused.stderr) == (2, True)
