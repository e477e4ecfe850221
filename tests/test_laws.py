"""The laws of docs/ARCHITECTURE.md, run with the tests: who imports whom, names, purity, style."""

from __future__ import annotations

import ast
import configparser
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest

from deploy.documentation.imports import Circle, circles, import_graph, module_of
from deploy.paths import PACKAGES, PROJECT_ROOT

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
# Law 2: shells of the broker reach these only through the ports clock, disk and network.
IMPURE = {
    "time",
    "os",
    "socket",
    "random",
    "threading",
    "secrets",
    "tempfile",
    "shutil",
    "subprocess",
}
REAL_PORTS = (
    "broker/clock/real.py", "broker/disk/real.py", "broker/disk/real_guard.py",
    "broker/network/real.py",
    "broker/controller/zk/kazoo_session.py",
    "broker/network/real_tls.py", "broker/cleaner_process/real.py",
    "broker/cleaner_process/real_child.py",
    # the process itself: signals, arguments, exit status
    "broker/server/process.py", "deploy/servers/databus.py", "deploy/servers/databus_cluster.py",
    "broker/cli.py",
)  # fmt: skip
LONGEST_FUNCTION_LINES = 60
LONGEST_FILE_LINES = 600
GENERATED = "bus/protocol/generated"

# Circles of imports that are known: none. One that is listed and no longer exists fails the test.
CIRCLES: Set[Circle] = frozenset()
# Parts of a package side by side that import each other.
CIRCLES_OF_PARTS: Set[Circle] = frozenset()

# For each contract of .importlinter one import that must break it: who imports, what.
VIOLATIONS = {
    "packages": ("bus.limits", "broker.settings"),
    "read-side": ("monitor.ports", "ingest.edge.app"),
    "mirror": ("dr_mirror.settings", "broker.settings"),
    "mirror-packages": ("dr_mirror.copy.context", "dr_mirror.status.metrics"),
    "read-only": ("alarm.cli", "ingest.store.open"),
    "console-store": ("monitor.api.views", "ingest.store.sqlite"),
    "jobs": ("spark_apps.queries.sink", "alarm.dispatch"),
    "sites": ("ingest.edge.sites.site_route", "ingest.edge.forwarder"),
    "monitor": ("monitor.api.views", "monitor.watch.bounds"),
    "watch": ("monitor.watch.bounds", "monitor.api.views"),
    "drivers": ("spark_apps.tasks.judge", "spark_apps.queries.context"),
    "broker": ("broker.log.log", "broker.replica.manager"),
    "deploy": ("deploy.setup.report", "deploy.servers.kafka"),
    "protocol": ("bus.records.batch", "bus.client.wire.connection"),
    "librdkafka": ("alarm.watchlist_reader", "confluent_kafka"),
    "controllers": ("broker.controller.zk.state_machines", "broker.controller.kraft.raft.roles"),
    "kraft": ("broker.controller.kraft.storage.raft_log", "broker.controller.kraft.transport.codec"),
    "pure": ("broker.controller.decisions.topics", "time"),
}

# Calls forbidden in a pure core that no import shows: files, the terminal, the clock, randomness.
CALLS_OF_IMPURE = {
    "open", "print", "input", "now", "today", "utcnow", "uuid1", "uuid4",
    "read_bytes", "read_text", "write_bytes", "write_text",
}  # fmt: skip
# It logs which broker refused to delete a replica; that line is still to become an effect.
CORES_THAT_LOG = {"broker.controller.zk.deletion"}


def sources() -> Iterator[Path]:
    """Every Python file of the packages that a person wrote."""
    for package in PACKAGES:
        for path in sorted((PROJECT_ROOT / package).rglob("*.py")):
            if GENERATED not in path.as_posix():
                yield path


def differences(found: Set[Circle], known: Set[Circle]) -> list[str]:
    """New circles, and known ones that no longer exist."""
    return [
        *(f"new circle: {', '.join(sorted(circle))}" for circle in found - known),
        *(f"not a circle any longer: {', '.join(sorted(circle))}" for circle in known - found),
    ]


@functools.cache
def contracts() -> configparser.ConfigParser:
    """`.importlinter`, read."""
    parser = configparser.ConfigParser()
    parser.read(PROJECT_ROOT / ".importlinter", encoding="utf-8")
    return parser


def pure_cores() -> set[str]:
    """The modules and packages that the contract of the pure cores names."""
    return set(contracts()["importlinter:contract:pure"]["source_modules"].split())


def is_pure(module: str, cores: Set[str]) -> bool:
    """Whether a module is one of them, or is in a package that is."""
    parts = module.split(".")
    return any(".".join(parts[:count]) in cores for count in range(1, len(parts) + 1))


def says_it_is_pure(tree: ast.Module) -> bool:
    """Whether its docstring says so: `Pure.`, `(pure)`, `(pure; time comes in)`."""
    return re.search(r"\bPure\b|\(pure\b", ast.get_docstring(tree) or "") is not None


def impure_calls(tree: ast.Module) -> set[str]:
    """Names that are called and that a pure core may not call."""
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in called}
    return names & CALLS_OF_IMPURE


def run(*words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def test_every_package_at_the_root_has_its_place_in_the_contracts():
    """A new package is placed on purpose."""
    packages = {path.parent.name for path in PROJECT_ROOT.glob("*/__init__.py")}
    text = (PROJECT_ROOT / ".importlinter").read_text()
    contracted = set(re.search(r"root_packages =\n((?:    \w+\n)+)", text).group(1).split())
    assert packages == set(PACKAGES) == contracted


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the packages in a folder."""
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_nobody_imports_against_the_direction_of_the_house():
    """import-linter's contracts."""
    done = lint_imports(PROJECT_ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_each_contract_is_broken_by_an_import_against_it(tmp_path: Path):
    """In a copy of the tree, with one forbidden import added per contract."""
    prefix = "importlinter:contract:"
    names = {
        section.removeprefix(prefix): contracts()[section]["name"]
        for section in contracts().sections()
        if section.startswith(prefix)
    }
    assert set(VIOLATIONS) == set(names)
    shutil.copy(PROJECT_ROOT / ".importlinter", tmp_path)
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT_ROOT / package, tmp_path / package, ignore=ignored)
    for importer, imported in VIOLATIONS.values():
        with (tmp_path / f"{importer.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    done = lint_imports(tmp_path)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stdout + done.stderr
    assert [each for each, name in names.items() if f"{name} BROKEN" not in said] == []
    assert [f"{a} -> {b}" for a, b in VIOLATIONS.values() if f"{a} -> {b}" not in said] == []


def test_no_modules_import_each_other_in_a_circle():
    """Imports for the type checker and inside functions count: the parts do not know the whole."""
    assert differences(circles(import_graph(PROJECT_ROOT, PACKAGES)), CIRCLES) == []


def between_parts(graph: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """The same imports between the parts of a package that stand side by side: modules, and packages
    with all that is in them. A package is no part beside its own parts."""
    parts: dict[str, set[str]] = {}
    for importer, imports in graph.items():
        for imported_module in imports:
            one, other = importer.split("."), imported_module.split(".")
            same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            if same:
                part, used = ".".join(one[: same + 1]), ".".join(other[: same + 1])
                parts.setdefault(part, set()).add(used)
                parts.setdefault(used, set())
    return parts


def test_no_parts_of_a_package_import_each_other():
    """Neither two packages side by side, nor a package and a module beside it, nor several in a
    circle: each can be read, and taken away, without what stands above it."""
    found = circles(between_parts(import_graph(PROJECT_ROOT, PACKAGES)))
    assert differences(found, CIRCLES_OF_PARTS) == []


def test_parts_that_import_each_other_are_found(tmp_path: Path):
    """No module imports another one in a circle; the two packages do."""
    for name, text in {
        "room/a/one": "from room.b.two import x", "room/b/two": "", "room/b/three": "import room.a.four",
        "room/a/four": "import room.low", "room/low": "",
    }.items():  # fmt: skip
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for folder in ("room", "room/a", "room/b"):
        (tmp_path / folder / "__init__.py").write_text("")
    graph = import_graph(tmp_path, ["room"])
    assert circles(graph) == set()
    assert circles(between_parts(graph)) == {frozenset({"room.a", "room.b"})}


@pytest.mark.parametrize(
    "back",
    [
        "from room.low import Low",
        "if TYPE_CHECKING:\n    from room import low",
        "def late():\n    import room.low",
        "from . import low",
        "from .low import Low",
    ],
)
def test_a_circle_is_found_however_it_is_imported(back: str, tmp_path: Path):
    """One way is a plain import; the way back is one of these."""
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "low.py").write_text("from room.high import High\n")
    (folder / "high.py").write_text("import ast\n")
    assert circles(import_graph(tmp_path, ["room"])) == set()
    (folder / "high.py").write_text(f"{back}\n")
    circle = frozenset({"room.low", "room.high"})
    assert circles(import_graph(tmp_path, ["room"])) == {circle}
    assert differences({circle}, set()) == ["new circle: room.high, room.low"]
    assert differences(set(), {circle}) == ["not a circle any longer: room.high, room.low"]


def test_pure_cores_call_nothing_that_reaches_outside():
    """What needs no import that the contract could forbid; logging they leave to their shells."""
    cores, wrong = pure_cores(), {}
    for path in sources():
        module = module_of(path, PROJECT_ROOT)
        if is_pure(module, cores):
            found = impure_calls(ast.parse(path.read_text(encoding="utf-8")))
            found |= imported(path) & {"logging"} if module not in CORES_THAT_LOG else set()
            if found:
                wrong[module] = sorted(found)
    assert wrong == {}
    stale = [
        m
        for m in CORES_THAT_LOG
        if "logging" not in imported(PROJECT_ROOT / f"{m.replace('.', '/')}.py")
    ]
    assert stale == []


def test_every_module_that_says_it_is_pure_is_held_to_it():
    """The contract's list is complete."""
    wrong = [
        module
        for path in sources()
        if not is_pure(module := module_of(path, PROJECT_ROOT), pure_cores())
        and says_it_is_pure(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line", ["open('x')", "datetime.now()", "x = uuid.uuid4().hex", "path.read_text()"]
)
def test_an_impure_call_is_found(line: str):
    """Inside a function as well."""
    assert impure_calls(ast.parse(f"def f():\n    {line}\n"))
    assert not impure_calls(ast.parse("def f(now_ms):\n    return opened(now_ms)\n"))


def test_a_module_that_says_it_is_pure_is_recognised():
    """A package named pure covers all its modules."""
    assert says_it_is_pure(ast.parse('"""Decides. Pure."""'))
    assert says_it_is_pure(ast.parse('"""Decides (pure; time comes in)."""'))
    assert not says_it_is_pure(ast.parse('"""Feeds the pure model."""'))
    assert is_pure("alarm.rules.verdict", {"alarm.rules"})
    assert not is_pure("alarm.rulesets", {"alarm.rules"})


def test_no_folder_or_file_is_called_utils_common_or_helpers():
    """A name that says nothing gathers everything."""
    wrong = [
        path.relative_to(PROJECT_ROOT).as_posix()
        for path in sources()
        if FORBIDDEN_NAMES & {part.removesuffix(".py") for part in path.parts}
    ]
    assert wrong == []


def imported(path: Path) -> set[str]:
    """First parts of the names that a file imports at run time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_the_broker_touches_clock_disk_dice_and_sockets_only_through_its_ports():
    """So that all of it can be simulated in one thread."""
    wrong = {
        path.relative_to(PROJECT_ROOT).as_posix(): sorted(found)
        for path in sources()
        if path.is_relative_to(PROJECT_ROOT / "broker")
        and path.relative_to(PROJECT_ROOT).as_posix() not in REAL_PORTS
        and (found := imported(path) & IMPURE)
    }
    assert wrong == {}


def test_every_module_says_what_it_is_for():
    """A docstring in every file that a person wrote and that holds code."""
    wrong = []
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if tree.body and ast.get_docstring(tree) is None:
            wrong.append(path.relative_to(PROJECT_ROOT).as_posix())
    assert wrong == []


def test_functions_and_files_stay_small():
    """The 99th percentile of function length is under sixty lines, and no file is a giant."""
    lengths, giants = [], []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > LONGEST_FILE_LINES:
            giants.append(f"{path.relative_to(PROJECT_ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
    lengths.sort()
    assert lengths[len(lengths) * 99 // 100] <= LONGEST_FUNCTION_LINES
    assert giants == []


def test_every_package_has_a_page_about_itself():
    """It has one page: purpose, entry point, what belongs here, what does not."""
    missing = [package for package in PACKAGES if not (PROJECT_ROOT / package / "README.md").is_file()]
    assert missing == []


def test_ruff_has_nothing_to_say():
    """Style is not discussed, it is run."""
    done = run("ruff", "check", "--no-cache", "--output-format", "concise", ".")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_strict_has_nothing_to_say():
    """Types of all packages, strict."""
    done = run("mypy")
    assert done.returncode == 0, done.stdout[-4000:]
