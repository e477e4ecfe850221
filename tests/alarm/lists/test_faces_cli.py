"""`./databus lists` for galleries of faces, against our own broker and a decider."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result

from alarm.lists.photo_files import is_of_photos
from alarm.lists.reader import ListReader
from alarm.rules import attributes_of
from bus.domain.feature_models import FeatureModelSettings, FeatureSettings
from bus.settings import BusSettings, SiteSettings
from deploy.product.lists_cli import mount
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.alarm.lists.excel_files import write_rows
from tests.alarm.lists.made_galleries import feature, text_of, unit
from tests.running_decider import running_decider

pytestmark = pytest.mark.slow

Run = Callable[..., Result]
MODEL, DIMENSIONS = "city-face-128/1", 128
HEAD = "人员编号,姓名,登记日期,人脸特征\n"
FEATURES = FeatureSettings(models={"own/2": FeatureModelSettings(dimensions=4, threshold=0.5)})


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    with running_broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        yield BusSettings(bootstrap_servers=broker.bootstrap)


@pytest.fixture
def run(bus: BusSettings) -> Run:
    app = typer.Typer()
    mount(app)
    settings = SimpleNamespace(bus=bus, site=SiteSettings(), features=FEATURES)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["lists", *words], obj=settings)

    return run


@pytest.fixture
def decided(bus: BusSettings) -> Iterator[None]:
    with running_decider(bus.bootstrap_servers):
        yield


@pytest.fixture
def reader(bus: BusSettings, tmp_path: Path) -> Iterator[ListReader]:
    with closing(ListReader(bus, "test", tmp_path / "tables")) as found:
        yield found


def face(number: int) -> bytes:
    return feature(unit(DIMENSIONS, number))


def written(path: Path, *lines: str) -> str:
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="gb18030")
    return str(path)


def people(count: int, first: int = 0) -> list[str]:
    return [f"P{at},姓名{at},2026/1/2,{text_of(face(at))}" for at in range(first, first + count)]


def record_file(path: Path, value: bytes, model: str = MODEL) -> str:
    path.write_text(json.dumps({"人脸特征": text_of(value), "特征模型": model}), encoding="utf-8")
    return str(path)


def nearest(reader: ListReader, list_id: str, number: int) -> tuple[str, float] | None:
    reader.catch_up()
    message = {"人脸特征": text_of(face(number)), "特征模型": MODEL}
    match = reader.galleries[list_id].find(attributes_of("face", message))
    return None if match is None else (match.line.entry, match.score)


def test_a_file_of_features_is_imported_changed_and_ended(
    run: Run, decided: None, reader: ListReader, tmp_path: Path
) -> None:
    numbers = " ".join(map(str, unit(DIMENSIONS, 700)))
    file = written(
        tmp_path / "wanted.csv", *people(600), f"P700,,,[{numbers}]", f"P3,again,,{text_of(face(1))}",
        f"P601,,,{text_of(face(1)[:-4])}", f",,,{text_of(face(1))}", "P602,,,",
        f"P603,,soon,{text_of(face(1))}",
    )  # fmt: skip
    words = ("--list", "wanted", "--model", MODEL, "--name", "在逃人员", "--json")
    dry = json.loads(run("import-faces", file, *words, "--dry-run").stdout)
    assert (dry["difference"]["added"], dry["answer"]) == (601, None)
    assert "wanted" not in run("show").stdout
    first = json.loads(run("import-faces", file, *words).stdout)
    assert (first["lines"], first["refused"], first["answer"]["state"]) == (601, 5, "accepted")
    assert first["refused_reasons"] == {
        "entry_twice": 1, "not_a_feature": 1, "no_entry": 1, "no_feature": 1, "date": 1,
    }  # fmt: skip
    report = Path(first["report"]).read_text(encoding="utf-8-sig")
    assert "the entry stands already in line 5" in report
    assert "128" in report
    assert nearest(reader, "wanted", 7) == ("P7", 1.0)
    assert nearest(reader, "wanted", 700) == ("P700", 1.0)
    assert reader.galleries["wanted"].line_count == 601

    added = run("add-face", "wanted", "P900", "--record", record_file(tmp_path / "r.json", face(900)))
    assert added.exit_code == 0, added.output
    assert nearest(reader, "wanted", 900) == ("P900", 1.0)
    assert run("remove-face", "wanted", "P7").exit_code == 0
    entry, score = nearest(reader, "wanted", 7) or ("", 1.0)
    assert entry != "P7"
    assert score < 0.6
    assert run("remove-face", "wanted", "P7").stderr == "not in wanted: P7\n"

    strict = run("import-faces", file, *words[:4], "--threshold", "0.9")
    assert strict.exit_code == 0, strict.output
    reader.catch_up()
    record = reader.galleries["wanted"].record
    assert record.model is not None
    assert (record.model.threshold, record.changed_lines) == (0.9, 0)
    assert f"{MODEL} 0.9" in run("show").stdout
    assert run("end", "wanted").exit_code == 0
    reader.catch_up()
    assert "wanted" not in reader.galleries


def test_a_workbook_is_a_gallery_too_and_says_of_which_model_it_is(
    run: Run, decided: None, reader: ListReader, tmp_path: Path
) -> None:
    """Then a file that says nothing of it is of the gallery's model, with the gallery's threshold."""
    rows = [
        ("city wanted list",), ("编号", "备注", "特征", "特征模型"),
        *((f"P{at}", f"note {at}", text_of(face(at)), MODEL) for at in range(20)),
        ("P90", "", text_of(feature(unit(4, 1))), "own/2"), ("P91", "", text_of(face(1)), ""),
    ]  # fmt: skip
    file = tmp_path / "wanted.xlsx"
    write_rows(file, rows)
    first = run("import-faces", str(file), "--list", "sheet", "--threshold", "0.8", "--json")
    found = json.loads(first.stdout)
    assert (found["lines"], found["refused_reasons"]) == (21, {"other_model": 1})
    assert (found["model"]["name"], found["model"]["threshold"]) == (MODEL, 0.8)
    assert "another model than that of the gallery, city-face-128/1" in Path(found["report"]).read_text("utf-8-sig")
    assert nearest(reader, "sheet", 7) == ("P7", 1.0)

    again = run("import-faces", written(tmp_path / "b.csv", *people(18)), "--list", "sheet", "--json")
    model = json.loads(again.stdout)["model"]
    assert (model["name"], model["threshold"]) == (MODEL, 0.8)
    new = run("import-faces", written(tmp_path / "c.csv", *people(2)), "--list", "new")
    assert (new.exit_code, MODEL in new.stderr) == (2, True), new.stderr


def test_a_gallery_is_of_a_model_that_the_site_knows(run: Run, tmp_path: Path) -> None:
    unknown = run("import-faces", written(tmp_path / "a.csv", *people(2)), "--list", "x", "--model", "y/9")
    assert unknown.exit_code == 2
    assert "own/2" in unknown.stderr, "those that are known are named"


def test_a_model_that_only_the_importer_knows_is_refused_by_the_decider(
    run: Run, decided: None, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", f"P1,,,{text_of(feature(unit(4, 1)))}")
    refused = run("import-faces", file, "--list", "own", "--model", "own/2")
    assert refused.exit_code == 1
    assert "no such model; there are: city-face-128/1" in refused.output


def test_a_list_of_plates_and_a_gallery_are_not_put_in_each_others_place(
    run: Run, decided: None, tmp_path: Path
) -> None:
    faces = written(tmp_path / "a.csv", *people(2))
    plates = tmp_path / "b.csv"
    plates.write_text("车牌\n浙A12345\n", encoding="utf-8")
    assert run("import-faces", faces, "--list", "one", "--model", MODEL).exit_code == 0
    assert run("import", str(plates), "--list", "two").exit_code == 0
    taken = run("import", str(plates), "--list", "one", "--yes")
    assert (taken.exit_code, "this is a gallery of faces" in taken.output) == (1, True)
    taken = run("import-faces", faces, "--list", "two", "--model", MODEL, "--yes")
    assert (taken.exit_code, "this is a list of plates" in taken.output) == (1, True)
    plate = run("add-line", "one", "浙A12345")
    assert (plate.exit_code, "this is a gallery of faces" in plate.output) == (1, True)
    other = record_file(tmp_path / "r.json", face(3), "another/1")
    foreign = run("add-face", "one", "P3", "--record", other)
    assert (foreign.exit_code, "--record" in foreign.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        ("编号,备注\nP1,x\n".encode(), "no line of headings is found"),
        ("编号,特征\nP1,nothing\n".encode(), "no face of"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_gallery_changes_nothing_and_says_why(
    run: Run, tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    refused = run("import-faces", str(path), "--list", "none", "--model", MODEL)
    assert (refused.exit_code, refused.stderr.startswith("nothing is imported: ")) == (1, True)
    assert text in refused.stderr


@pytest.mark.parametrize("name", ["photos", "P7.JPG"])
def test_photos_are_refused_with_what_to_do_instead(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if "." in name:
        path.write_bytes(b"\xff\xd8\xff")
    else:
        path.mkdir()
    refused = run("import-faces", str(path), "--list", "none", "--model", MODEL)
    assert refused.exit_code == 1
    assert "no plug-in that makes features of them is there" in refused.stderr


def test_photos_under_any_name_are_seen_and_a_sheet_with_a_photo_in_it_is_a_sheet(tmp_path: Path) -> None:
    named = {"a.csv": b"\x89PNG\r\n\x1a\n", "b.csv": b"\xff\xd8\xff\xe0", "c": "编号,特征\n".encode()}
    for name, content in named.items():
        (tmp_path / name).write_bytes(content)
    for name, files in {"d.xlsx": ["[Content_Types].xml", "xl/media/1.jpg"], "e": ["P7/1.JPG"]}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as packed:
            for one in files:
                packed.writestr(one, b"x")
    assert {one.name for one in tmp_path.iterdir() if is_of_photos(one)} == {"a.csv", "b.csv", "e"}
