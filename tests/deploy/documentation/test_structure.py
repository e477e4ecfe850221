"""The figures of the code: what is counted, on a small tree, and that the page has every package."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.documentation.imports import circles, import_graph, pairs
from deploy.documentation.structure import measure, of_packages, page, row
from deploy.paths import PACKAGES, PROJECT_ROOT

SOURCE = '''"""Words like Any in a docstring do not count, nor # type: ignore."""
from typing import Any

def short() -> None: ...

class Large:
    def method(self, value: Any):
        return cast(Any, value)  # type: ignore[no-any-return]
'''


def write(root: Path, files: dict[str, str]) -> None:
    """A tree of packages."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_file_is_counted_by_its_code_and_not_by_its_words() -> None:
    found = measure("room/low.py", SOURCE)
    assert [one.lines for one in found.functions] == [1, 2]
    assert [one.lines for one in found.classes] == [3]
    assert (found.file.lines, found.annotated) == (8, 1)
    assert (found.any_lines, found.ignores) == (3, 1)


def test_the_sum_of_a_package_is_that_of_its_files(tmp_path: Path) -> None:
    """Empty files and generated ones are none."""
    write(tmp_path, {
        "bus/__init__.py": "", "bus/low.py": SOURCE, "bus/high.py": "def f():\n    pass\n",
        "bus/protocol/generated/made.py": SOURCE,
    })  # fmt: skip
    files = of_packages(tmp_path, ["bus"])["bus"]
    assert row("bus", files) == "| bus | 3 | 2 | 2 | 2 | 2 | 5 | 8 | 0 | 3 | 1 | 33 % |\n"


@pytest.mark.parametrize(
    ("back", "found"),
    [
        ("from one.two import low\n", {frozenset({"one.two", "one.three"})}),
        ("import ast\n", set()),
    ],
)
def test_packages_that_import_each_other_are_found_where_no_module_is_in_a_circle(
    back: str, found: set[frozenset[str]], tmp_path: Path
) -> None:
    write(tmp_path, {
        "one/__init__.py": "", "one/two/__init__.py": "", "one/three/__init__.py": "",
        "one/two/low.py": "", "one/two/high.py": "from one.three.middle import M\n",
        "one/three/middle.py": "", "one/three/other.py": back,
    })  # fmt: skip
    graph = import_graph(tmp_path, ["one"])
    assert pairs(graph) == found
    assert circles(graph) == set()


def test_a_package_and_one_inside_it_stand_apart_from_two_beside_each_other(tmp_path: Path) -> None:
    write(tmp_path, {
        "one/__init__.py": "", "one/inner/__init__.py": "", "one/low.py": "",
        "one/high.py": "from one.inner.part import P\n", "one/inner/part.py": "import one.low\n",
    })  # fmt: skip
    text = page(tmp_path, ["one"], "2026-01-31")
    beside, _, inside = text.partition("## A package and one inside it")
    assert "## Packages that import each other\n\nNone." in beside
    assert "- `one`, `one.inner`" in inside


def test_the_page_has_every_package_and_says_how_it_is_made() -> None:
    """Its figures are of some day; the packages are today's."""
    text = (PROJECT_ROOT / "docs/structure.md").read_text("utf-8")
    assert all(f"\n| {package} | " in text for package in (*PACKAGES, "all", "h11", "trio"))
    assert "python -m deploy.documentation.structure" in text
