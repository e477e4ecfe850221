"""Which module imports which, and the circles and pairs among them.

In: a folder of packages. Out: sets of names. Never: importing what is looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

Circle = frozenset[str]


def module_of(path: Path, root: Path) -> str:
    """The dotted name of a file below `root`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def targets(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """All that a module imports: at its top, inside functions, for the type checker only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: None if is_package else -1]
            above = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def import_graph(root: Path, packages: Iterable[str]) -> dict[str, set[str]]:
    """Which of the modules below these folders imports which; a package is its `__init__.py`."""
    paths = [path for each in packages for path in sorted((root / each).rglob("*.py"))]
    graph: dict[str, set[str]] = {module_of(path, root): set() for path in paths}
    for path in paths:
        module = module_of(path, root)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in targets(tree, module, is_package=path.name == "__init__.py"):
            found = name if name in graph else name.rpartition(".")[0]
            if found in graph and found != module:
                graph[module].add(found)
    return graph


def circles(graph: Mapping[str, Set[str]]) -> set[Circle]:
    """Modules that reach each other: the strongly connected components (Kosaraju)."""
    importers: dict[str, set[str]] = {module: set() for module in graph}
    for module, imports in graph.items():
        for each in imports:
            importers[each].add(module)
    seen: set[str] = set()
    found = set()
    for start in reversed(_in_post_order(graph)):
        component, waiting = set(), [start]
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                component.add(module)
                waiting.extend(importers[module])
        if len(component) > 1:
            found.add(frozenset(component))
    return found


def _in_post_order(graph: Mapping[str, Set[str]]) -> list[str]:
    order, seen = [], set()
    for start in graph:
        waiting = [(start, False)]
        while waiting:
            module, is_done = waiting.pop()
            if is_done:
                order.append(module)
            elif module not in seen:
                seen.add(module)
                waiting.append((module, True))
                waiting.extend((each, False) for each in graph[module])
    return order


def pairs(graph: Mapping[str, Set[str]]) -> set[Circle]:
    """Packages (folders, each without those inside it) of which each imports the other."""
    folders = {module.rpartition(".")[0] for module in graph}
    packages = {one: one if one in folders else one.rpartition(".")[0] for one in graph}
    imports = {
        (packages[module], packages[each])
        for module, imported in graph.items()
        for each in imported
    }
    return {frozenset(pair) for pair in imports if pair[0] != pair[1] and pair[::-1] in imports}
