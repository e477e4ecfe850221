"""Names of the code: one meaning per class name, and only words that a reader can know.

The words of class names stand in docs/glossary.txt, each below where it comes from. Functions,
methods, modules and constants have none of the names that standard terms replaced (the renaming
table of the project's naming rules); nor has one of their names, or a field's, a word of
docs/replaced_words.txt. Checked over the syntax trees, generated code apart.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bus.domain.kinds import KEYS_AS_STORED, KINDS
from deploy.paths import PACKAGES, PROJECT_ROOT

GENERATED = "bus/protocol/generated/"

REPLACED_EVERYWHERE = (
    "take tell told look give bring heed mend bear wish wished anew tell_faults hand_over"
)
"""Method and function names that a dozen unrelated classes shared: such names cannot be searched
for."""

REPLACED = {
    "broker/server": """
        rooms planes plane build_rooms _took _report gauges embedded embedded_cluster
        begin_broker_process start_again _settle_collector _keep_freed_memory everything
        vouched_epoch zookeeper_place zookeeper_opening zookeeper_absence zookeeper_links links
    """,
    "broker/handlers": """
        sides refusals refusal refuse fetch_reading note_follower _elsewhere urgent _take_wishes
        _look_again _settle late _unproved topic_blocks auto_topics alter.py may shown_controller_id
        dispatch_inner
    """,
    "broker/network": "budget keep_rest new_cutter begin_turn end_turn wake http",
    "broker/peer": "silence worth_saying controller_link deadlines",
    "broker/replica": """
        measures waking growth shrinkage withdraw resting _take _cut _start_again _on_no_answer
        follow leave end_idle want leave_out moved begin_anew touched poked new_replicas go_on
        PER_GREETING take_up _give_up lies_elsewhere ANEW proof cut_at throttles holds_back selector
        on_moved copied led_since reconsider_watermark
    """,
    "broker/log": """
        futures tail note_producer records_in checked_batch sound_batches rolling must_roll
        durability background retain note cut_torn_tail raise_start _is_bare _room_for write_life
        forget_life begin_life epoch_of_life leave_clean_shutdown take_clean_shutdown
        was_closed_in_order let_go _put_aside _only_one _vouched adopt_file thaw freeze
    """,
    "broker/controller": "others_know answers _lives growth places",
    "broker/controller/kraft": """
        machine core lines leading following membership _carry doubt places learn place_of carrier
        carry_out driver settle _met_stranger on_misplaced namesake met _is_doubled on_namesake
        presence _is_well _mend _heed housekeeping parked soundness check_sound opening _remembered
        wire images tell_own_place gauges
    """,
    "broker/controller/zk": """
        uptake take_brokers remove_the_dead bear_partitions _unborn _born UNBORN_EPOCH take_all
        taking stand _take_office leave_orderly reread on_notes load.py real.py suspicion once_known
        tool_znodes read_tool access unsound
    """,
    "broker/coordinator": "lead resign appender roster die _ask_to_come_back token",
    "broker/metadata": "departures shown records without_effect",
    "broker/purgatory": "stays",
    "broker/clock": "dice",
    "bus": """
        command told hello took_hello ask ask_nothing_back can understand look act watch_move
        plan_file records_meta
    """,
    "ingest": """
        courier carry intake beside answers keeper salvage own_id judged pace books finder
        found_ledger misfortunes healing opening truth.py film delivery
    """,
    "alarm": "telling later could_meet meets asked",
    "spark_apps": "patiently told_incidents _mine begin",
    "monitor": "hub once.py _enter _leave _reach _tell_faults",
    "deploy": """
        account.py account_read account_print bus_books books mishap children.py _keep _keep_house
        testing tally figures probes
    """,
}
"""Per folder (and all below it) the names that standard terms have replaced there. `name.py` means
a module or package only: the word is right for something else there."""

GLOSSARY = PROJECT_ROOT / "docs/glossary.txt"
REPLACED_WORDS = PROJECT_ROOT / "docs/replaced_words.txt"
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
PLURALS = (("ies", "y"), ("es", ""), ("s", ""))

Definition = tuple[str, int, str]


def glossary(text: str) -> list[tuple[str, str]]:
    """Where each word comes from, and the word, in the order of the file."""
    found, source = [], ""
    for line in filter(None, text.splitlines()):
        if line.startswith("== "):
            source = line.removeprefix("== ")
        elif not line.startswith("#"):
            found.append((source, line.partition(":")[0]))
    return found


def unknown_words(name: str, known: set[str]) -> list[str]:
    """Words of a class name that the glossary has neither as they are nor in the singular."""
    words = [word.lower() for word in WORD.findall(name)]
    return [word for word in words if not known.intersection(_singulars(word))]


def _singulars(word: str) -> set[str]:
    ends = [(end, single) for end, single in PLURALS if word.endswith(end)]
    return {word, *(word.removesuffix(end) + single for end, single in ends)}


def defined_names(path: str, source: str) -> Iterator[Definition]:
    """Modules, classes, functions and methods of one file: path, line, name."""
    module = Path(path).parent.name if Path(path).stem == "__init__" else Path(path).stem
    yield path, 1, module
    yield path, 1, f"{module}.py"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield path, node.lineno, node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for one in targets if isinstance(one, ast.Name)]
            yield from ((path, node.lineno, name) for name in names if name.isupper())


def replaced_words(text: str) -> tuple[set[str], set[str]]:
    """The words, and the names that may have one."""
    words, _, names = text.partition("\n== ")
    found = [
        [line.partition(":")[0] for line in part.splitlines() if ": " in line and line[0] != "#"]
        for part in (words, names.partition("\n")[2])
    ]
    return set(found[0]), set(found[1])


def named_parts(path: str, source: str) -> Iterator[Definition]:
    """Functions, methods, fields of classes and attributes of `self`: path, line, name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield path, node.lineno, node.name
            case ast.ClassDef():
                for one in node.body:
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        yield path, one.lineno, one.target.id
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield path, node.lineno, node.attr


def with_replaced_word(files: dict[str, str], words: set[str], names: set[str]) -> list[Definition]:
    """Names that have one of these words, but for `names`."""
    return [
        one
        for path, source in files.items()
        for one in named_parts(path, source)
        if one[2] not in names and words.intersection(one[2].lower().split("_"))
    ]


def sources() -> dict[str, str]:
    """Every Python file of the repository that is written by hand."""
    files = (file for folder in (*PACKAGES, "tests") for file in (PROJECT_ROOT / folder).rglob("*.py"))
    named = {file.relative_to(PROJECT_ROOT).as_posix(): file for file in files}
    return {name: file.read_text() for name, file in named.items() if not name.startswith(GENERATED)}


def replaced_names(files: dict[str, str]) -> list[Definition]:
    """Definitions that carry a replaced name in a folder where the table has it."""
    found = []
    for path, source in files.items():
        if path.startswith("tests/"):
            continue
        refused = set(REPLACED_EVERYWHERE.split())
        for folder, names in REPLACED.items():
            if path.startswith(folder + "/"):
                refused |= set(names.split())
        found += [one for one in defined_names(path, source) if one[2] in refused]
    return found


def class_names(files: dict[str, str]) -> dict[str, list[str]]:
    """Where each class name is defined."""
    found = defaultdict(list)
    for path, source in files.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path}:{node.lineno}")
    return found


def _listed(found: Iterable[Definition]) -> str:
    return "\n".join(f"{path}:{line}: {name}" for path, line, name in sorted(found))


def test_no_name_is_defined_that_a_standard_term_has_replaced():
    """Kafka's, Raft's, Spark's or Python's own word, never a metaphor."""
    found = replaced_names(sources())
    assert not found, f"{len(found)} replaced names:\n{_listed(found)}"


def test_no_class_name_is_defined_twice():
    """One meaning per class name: a reader who searches for it finds one class."""
    twice = {name: places for name, places in class_names(sources()).items() if len(places) > 1}
    listed = "\n".join(f"{name}: {', '.join(places)}" for name, places in sorted(twice.items()))
    assert not twice, f"{len(twice)} class names with several meanings:\n{listed}"


@pytest.mark.parametrize(
    ("path", "source", "name"),
    [
        ("broker/server/rooms.py", "", "rooms"),
        ("broker/controller/kraft/raft/raft.py", "class A:\n    def settle(self): ...", "settle"),
        ("broker/replica/partition.py", "class A:\n    def take(self): ...", "take"),
        ("broker/replica/manager.py", "PER_GREETING = 500", "PER_GREETING"),
    ],
)
def test_a_replaced_name_is_found(path: str, source: str, name: str):
    """A module, a method, a constant."""
    assert name in [one[2] for one in replaced_names({path: source})]


def test_every_word_of_a_class_name_is_in_the_glossary() -> None:
    """A noun of Kafka, Raft, Spark, Python or the domain; a new word is a line there."""
    known = {word for _, word in glossary(GLOSSARY.read_text("utf-8"))}
    product = {path: text for path, text in sources().items() if not path.startswith("tests/")}
    unknown = [
        f"{places[0]}: {name} ({', '.join(words)})"
        for name, places in sorted(class_names(product).items())
        if (words := unknown_words(name, known))
    ]
    assert not unknown, "not in docs/glossary.txt:\n" + "\n".join(unknown)


def test_the_glossary_has_each_word_once_and_sorted_below_its_source() -> None:
    """So that two people who add a word meet, and nobody looks for it twice."""
    listed = glossary(GLOSSARY.read_text("utf-8"))
    words = [word for _, word in listed]
    assert [word for word in words if words.count(word) > 1] == []
    for source in {source for source, _ in listed}:
        here = [word for place, word in listed if place == source]
        assert here == sorted(here), source


def test_no_function_or_field_has_a_word_that_a_plain_term_has_replaced() -> None:
    """A name that keeps one stands below the words, with its reason."""
    product = {path: text for path, text in sources().items() if not path.startswith("tests/")}
    found = with_replaced_word(product, *replaced_words(REPLACED_WORDS.read_text("utf-8")))
    assert not found, f"words of {REPLACED_WORDS.name}:\n{_listed(found)}"


def test_every_name_that_keeps_a_replaced_word_is_still_there() -> None:
    """An exception ends with its name."""
    words, names = replaced_words(REPLACED_WORDS.read_text("utf-8"))
    product = {path: text for path, text in sources().items() if not path.startswith("tests/")}
    used = {one[2] for path, text in product.items() for one in named_parts(path, text)}
    assert names - used == set()
    assert [name for name in names if not words.intersection(name.lower().split("_"))] == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def edge_untold(): ...", "edge_untold"),
        ("class A:\n    async def _tell(self): ...", "_tell"),
        ("class A:\n    said_ms: int = 0", "said_ms"),
        ("class A:\n    def __init__(self):\n        self._cuts: int = 0", "_cuts"),
    ],
)
def test_a_replaced_word_is_found(source: str, name: str) -> None:
    """In functions, methods, fields and attributes."""
    words = {"untold", "tell", "said", "cuts"}
    assert [one[2] for one in with_replaced_word({"a.py": source}, words, set())] == [name]
    assert with_replaced_word({"a.py": source}, words, {name}) == []


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("LeaderEpochs", []),
        ("_ACLQueryResult", []),
        ("SpoolCourier", ["courier"]),
        ("TidyHouses", ["tidy", "houses"]),
    ],
)
def test_a_word_that_the_glossary_lacks_is_found(name: str, unknown: list[str]) -> None:
    """Any word of the name, in the plural too."""
    known = {"leader", "epoch", "acl", "query", "result", "spool"}
    assert unknown_words(name, known) == unknown


# Where the name of a kind may stand as text: the table and the contract, what is valid of a kind, the
# words of the console, and the senders that make records of certain kinds.
NAMES_OF_KINDS = (
    "bus/domain/kinds.py",
    "bus/contracts/",
    "bus/domain/device_message.py",
    "ingest/normalise/diagnostics.py",
    "ingest/normalise/record.py",
    "ingest/senders/simulator/",
    "ingest/senders/video/",
    "ingest/video/",
    "monitor/i18n/",
    "deploy/bench/",
    "deploy/setup/cli.py",  # a word of its command line
)


def test_the_kinds_of_data_are_named_in_their_table_and_nowhere_else() -> None:
    """A new kind is a row there; a list of kinds elsewhere would be forgotten."""
    kinds = {*KINDS, *KEYS_AS_STORED}
    found = [
        f"{path}:{node.lineno} {node.value}"
        for path, source in sources().items()
        if not path.startswith(("tests/", *NAMES_OF_KINDS))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in kinds
    ]
    assert found == []
