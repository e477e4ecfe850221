"""Names of the code: one meaning per class name, and none of the names that standard terms replaced.

Source: the renaming table of the project's naming rules. Checked over the syntax trees of the
whole tree (classes, functions, methods, modules), generated code apart.
"""

from __future__ import annotations

import ast
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
        rooms planes plane Rooms build_rooms Plane PlaneRooms Ports Place Opening Absence BrokerLinks
        Links Self _took _report gauges embedded embedded_cluster
        begin_broker_process start_again BrokerDidNotStart _settle_collector _keep_freed_memory
        everything vouched_epoch zookeeper_place zookeeper_opening zookeeper_absence zookeeper_links
        links
    """,
    "broker/handlers": """
        sides Side refusals refusal refuse fetch_reading Reader note_follower _elsewhere Found urgent
        _take_wishes _look_again _settle Pending late _unproved topic_blocks TopicBlocks
        Forwarder auto_topics AutoTopics alter.py may shown_controller_id dispatch_inner CloseClient
    """,
    "broker/network": """
        budget ReceiveBudget FrameCutter keep_rest new_cutter Slot ResponseQueue begin_turn
        end_turn wake http
    """,
    "broker/peer": """
        silence Silence worth_saying Link ControllerLink Route Deadlines controller_link deadlines
    """,
    "broker/replica": """
        measures Measures waking Waking Leadership growth shrinkage withdraw Follower AlterPartitions
        Copy resting _take _cut _start_again _on_no_answer Fetchers follow leave end_idle FetchPlan want
        leave_out moved begin_anew FetchSessions Entry touched poked new_replicas NewReplicas go_on
        PER_GREETING Moves Move take_up _give_up lies_elsewhere ANEW proof Proofs cut_at throttles
        holds_back selector Assignments on_moved copied led_since reconsider_watermark
    """,
    "broker/log": """
        futures Futures tail Tail Walk Found note_producer records_in checked_batch sound_batches
        Origin rolling must_roll durability Durability Flush background Background retain Sent note
        cut_torn_tail raise_start _is_bare _room_for write_life forget_life begin_life epoch_of_life
        leave_clean_shutdown take_clean_shutdown was_closed_in_order let_go _put_aside _only_one _vouched
        adopt_file thaw freeze
    """,
    "broker/controller": """
        Contact others_know answers _lives growth Rules Terms Wanted _Next places Taken Refused
    """,
    "broker/controller/kraft": """
        machine Machine core Core Line lines leading Leading Term following Following membership
        _carry Moment doubt places Links Places learn place_of carrier Carrier carry_out driver settle
        _met_stranger on_misplaced namesake met _is_doubled on_namesake presence Presence _is_well _mend
        _heed housekeeping Housekeeping parked ParkedFetches soundness check_sound opening Opened
        _remembered wire images Images Waiting Described tell_own_place gauges
    """,
    "broker/controller/zk": """
        uptake take_brokers remove_the_dead bear_partitions _unborn _born UNBORN_EPOCH take_all taking
        Term Office Deposed GivenUp stand _take_office leave_orderly reread on_notes Learned load.py real.py
        Line Lines Due Author EventLine Suspicions suspicion once_known Answer Member Follower
        tool_znodes read_tool access unsound
    """,
    "broker/coordinator": """
        Leadership lead resign Appender appender Roster roster die _ask_to_come_back Arm token
    """,
    "broker/metadata": "departures Departures shown records without_effect",
    "broker/purgatory": "stays",
    "broker/clock": "Dice dice Errand",
    "bus": """
        command told Exchange hello took_hello ask ask_nothing_back can understand look act watch_move
        Place Received plan_file records_meta
    """,
    "ingest": """
        courier Courier Flight carry intake Taken Arrival beside answers keeper PictureKeeper salvage
        own_id judged pace books finder Line Lead found_ledger CityLife misfortunes Mishap Struck
        Script healing opening Scribe truth.py Made film Film Moment delivery
    """,
    "alarm": """
        telling Telling NotTold later Notice CommandsUnread could_meet meets asked
    """,
    "spark_apps": """
        Member patiently Events EventsLost told_incidents TopicUnread _mine begin
    """,
    "monitor": """
        hub Tail Sighting Picture Watcher RuleBook LatencyBook AccountBook once.py FailedLogins Guard
        _enter _leave Away _reach _tell_faults
    """,
    "deploy": """
        account.py account_read account_print FlowBooks AlarmBooks bus_books BusBooks books Left mishap
        Sight children.py Life _keep _keep_house testing tally figures probes
    """,
}
"""Per folder (and all below it) the names that standard terms have replaced there. `name.py` means
a module or package only: the word is right for something else there."""

Definition = tuple[str, int, str]


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


def _shown(found: Iterable[Definition]) -> str:
    return "\n".join(f"{path}:{line}: {name}" for path, line, name in sorted(found))


def test_no_name_is_defined_that_a_standard_term_has_replaced():
    """Kafka's, Raft's, Spark's or Python's own word, never a metaphor."""
    found = replaced_names(sources())
    assert not found, f"{len(found)} replaced names:\n{_shown(found)}"


def test_no_class_name_is_defined_twice():
    """One meaning per class name: a reader who searches for it finds one class."""
    twice = {name: places for name, places in class_names(sources()).items() if len(places) > 1}
    listed = "\n".join(f"{name}: {', '.join(places)}" for name, places in sorted(twice.items()))
    assert not twice, f"{len(twice)} class names with several meanings:\n{listed}"


@pytest.mark.parametrize(
    ("path", "source", "name"),
    [
        ("broker/server/rooms.py", "", "rooms"),
        ("broker/controller/kraft/raft/raft.py", "class Machine: ...", "Machine"),
        ("broker/replica/partition.py", "class A:\n    def take(self): ...", "take"),
        ("broker/replica/manager.py", "PER_GREETING = 500", "PER_GREETING"),
    ],
)
def test_a_replaced_name_is_found(path: str, source: str, name: str):
    """A module, a class, a method, a constant."""
    assert name in [one[2] for one in replaced_names({path: source})]


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
