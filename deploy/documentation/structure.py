"""How the code is cut, in figures: `python -m deploy.documentation.structure > docs/structure.md`.

In: the Python files of the packages that a person wrote. Out: a page, beside the figures of the
code bases that this one is compared with. Never: a limit; what is one is in `tests/test_laws.py`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

from deploy.documentation.imports import Circle, circles, import_graph, pairs
from deploy.paths import PACKAGES, PROJECT_ROOT

GENERATED = "bus/protocol/generated/"
LARGE_CLASS_LINES = 400
LONGEST_LISTED = 10

# Measured once, in November 2026, on their sources of that day.
COMPARED = """\
| h11 | | 4 | 42 | | | 153 | 659 | | | | 100 % |
| kio (by hand) | | 4 | 45 | | | 91 | 346 | | | | 99 % |
| websockets | | 5 | 87 | | | 268 | 1254 | | | | 100 % |
| starlette | | 3 | 43 | | | 142 | 876 | | | | 98 % |
| trio | | 2 | 62 | | | 180 | 3139 | | | | 100 % |
"""

HEAD = """\
# How the code is cut, in figures

Written by `python -m deploy.documentation.structure > docs/structure.md`; not by hand. To be looked
at: no test holds these figures, what a test holds is in `tests/test_laws.py`. Lengths are in lines;
generated code and tests are not counted. Below our packages stand code bases that this one is
compared with. Counted on {day}.

| | functions | median | p99 | longest | files | median | longest \
| classes above {large} | lines with `Any` | `type: ignore` | return types |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, a class or a file, and its length."""

    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """What one file holds."""

    file: Definition
    functions: list[Definition]
    classes: list[Definition]
    annotated: int
    any_lines: int
    ignores: int


def measure(name: str, source: str) -> SourceFigures:
    """What a file holds. A function inside another one counts by itself and with the outer one."""
    nodes = list(ast.walk(ast.parse(source)))
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [one for one in nodes if isinstance(one, ast.ClassDef)]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    words = (one for one in tokens if one.type == tokenize.NAME)
    return SourceFigures(
        file=Definition(name, len(source.splitlines())),
        functions=[_definition(name, one) for one in functions],
        classes=[_definition(name, one) for one in classes],
        annotated=sum(one.returns is not None for one in functions),
        any_lines=len({one.start[0] for one in words if one.string == "Any"}),
        ignores=sum(t.type == tokenize.COMMENT and "type: ignore" in t.string for t in tokens),
    )


def _definition(
    file: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> Definition:
    return Definition(f"{file}` `{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)


def of_packages(root: Path, packages: Iterable[str]) -> dict[str, list[SourceFigures]]:
    """The files of each package that a person wrote and that hold anything."""
    return {package: list(_of_folder(root, package)) for package in packages}


def _of_folder(root: Path, package: str) -> Iterator[SourceFigures]:
    for path in sorted((root / package).rglob("*.py")):
        name, source = path.relative_to(root).as_posix(), path.read_text("utf-8")
        if source.strip() and not name.startswith(GENERATED):
            yield measure(name, source)


def row(name: str, files: Sequence[SourceFigures]) -> str:
    """One line of the table."""
    functions = sorted(one.lines for file in files for one in file.functions) or [0]
    lengths = [file.file.lines for file in files] or [0]
    large = sum(one.lines > LARGE_CLASS_LINES for file in files for one in file.classes)
    annotated = 100 * sum(file.annotated for file in files) // len(functions)
    cells = (
        name, len(functions), _middle(functions), functions[len(functions) * 99 // 100],
        functions[-1], len(files), _middle(lengths), max(lengths), large,
        sum(file.any_lines for file in files), sum(file.ignores for file in files),
        f"{annotated} %",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |\n"


def _middle(numbers: Sequence[int]) -> int:
    return int(median(numbers))


def page(root: Path, packages: Sequence[str], day: str) -> str:
    """The whole page."""
    found = of_packages(root, packages)
    every = [file for files in found.values() for file in files]
    graph = import_graph(root, packages)
    both = pairs(graph)
    nested = {pair for pair in both if _is_nested(*pair)}
    apart = both - nested
    large = _longest(every, lambda file: file.classes, LARGE_CLASS_LINES)
    parts = [
        HEAD.format(day=day, large=LARGE_CLASS_LINES),
        *(row(package, files) for package, files in found.items()),
        row("all", every), COMPARED,
        _listed("The longest functions", _longest(every, lambda file: file.functions)),
        _listed("The longest files", _longest(every, lambda file: [file.file])),
        _listed(f"Classes above {LARGE_CLASS_LINES} lines", large),
        _listed("Modules that import each other in a circle", _groups(circles(graph))),
        _listed("Packages that import each other", _groups(apart)),
        _listed("A package and one inside it that import each other", _groups(nested)),
    ]  # fmt: skip
    return "".join(parts)


def _is_nested(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _longest(
    files: Iterable[SourceFigures],
    chosen: Callable[[SourceFigures], Iterable[Definition]],
    above: int = 0,
) -> list[str]:
    """The longest ones; with a bound all that are longer."""
    every = sorted((one for file in files for one in chosen(file)), key=lambda one: -one.lines)
    longest = [one for one in every if one.lines > above] if above else every[:LONGEST_LISTED]
    return [f"`{one.name}`: {one.lines} lines" for one in longest]


def _groups(groups: Iterable[Circle]) -> list[str]:
    return sorted(", ".join(f"`{one}`" for one in sorted(group)) for group in groups)


def _listed(title: str, lines: Sequence[str]) -> str:
    text = "".join(f"- {line}\n" for line in lines) or "None.\n"
    return f"\n## {title}\n\n{text}"


if __name__ == "__main__":
    print(page(PROJECT_ROOT, PACKAGES, date.today().isoformat()), end="")
