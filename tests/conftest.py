"""What all tests share: the seed, real servers of other people, skips by name, package time budgets.

Never: a fixture that stands in for one of our own servers.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from broker.disk.real_guard import REFUSE
from deploy.errors import Unavailable
from deploy.servers.hbase import Hbase, start_hbase
from deploy.servers.kafka import start_kafka
from deploy.servers.process import JavaServer
from deploy.servers.zookeeper import start_zookeeper
from deploy.setup.java import ensure_java
from deploy.test_runs.outcomes import OUTCOMES_VARIABLE, Outcomes
from tests import workers
from tests.rotation import skip_what_is_not_drawn

SEED = int(os.environ.get("DATABUS_SEED") or random.SystemRandom().randrange(1 << 32))
os.environ["DATABUS_SEED"] = str(SEED)  # workers inherit it
os.environ.setdefault(REFUSE, "1")  # brokers too: none may wait for the device while it serves
QUICK_BUDGET_S = 10.0  # what the unmarked tests of one package may take together
LONGEST_FILES, LONG_FILE_S = 25, 45.0  # named at the end, so that the whole run stays short
LONGEST_REASON = 200  # characters
LONGEST_BYTES_IN_A_NAME = 12
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")

# A deadline and a complaint that data are made slowly would judge the machine, one that many of them
# were left out the luck of a seed. Where none is left, Hypothesis fails all the same.
hypothesis.settings.register_profile(
    "databus",
    deadline=None,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.filter_too_much,
    ],
)
hypothesis.settings.load_profile("databus")

_seconds: dict[str, float] = defaultdict(float)
_seconds_of_tests: dict[str, float] = defaultdict(float)
_outcomes: dict[str, str] = {}
_failures: dict[str, str] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws from the run's seed, unless it was given one of its own."""
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = SEED
    config.pluginmanager.register(workers)


def pytest_report_header() -> str:
    """Every run prints how to repeat it."""
    return f"seed: {SEED} (repeat with DATABUS_SEED={SEED})"


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are named by their argument: packed ones may differ each second, and workers must agree."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_BYTES_IN_A_NAME else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests that rotate, those run whose turn it is, and those of packages that changed."""
    asked = {(config.invocation_params.dir / word).resolve() for word in config.args}
    skip_what_is_not_drawn(items, whole_run=Path(__file__).parent in asked)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need what is not here are skipped, each saying what is missing."""
    if item.get_closest_marker("java"):
        try:
            ensure_java()
        except Unavailable as missing:
            pytest.skip(str(missing))
    if item.get_closest_marker("browser") and not any(map(shutil.which, CHROMIUM_NAMES)):
        pytest.skip("needs Chromium; install it (Debian: apt-get install chromium)")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what tests, and each package's quick tests, take; keep what failed and why."""
    _seconds_of_tests[report.nodeid] += report.duration
    if report.failed:
        _failures.setdefault(report.nodeid, _reason(report))
    if report.when == "call" or report.outcome != "passed":  # a teardown may still fail
        _outcomes[report.nodeid] = report.outcome
    if not {"java", "browser", "slow"} & set(report.keywords):
        parts = Path(report.nodeid.split("::")[0]).parts
        if len(parts) > 2:
            _seconds[parts[1]] += report.duration


def _reason(report: pytest.TestReport) -> str:
    """The last line of what pytest says of a failure, which names the error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else report.longreprtext
    return f"{report.when}: {(said.strip() or 'no reason given').splitlines()[0]}"[:LONGEST_REASON]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write for `./databus test` what the run did; the workers of a run leave that to the one that counts."""
    wanted = os.environ.get(OUTCOMES_VARIABLE)
    if wanted is None or hasattr(session.config, "workerinput"):
        return
    Outcomes(Counter(_outcomes.values()), _failures, _seconds_of_tests).write(Path(wanted))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the longest files, and the packages whose quick tests have outgrown their budget."""
    seconds_of_files: dict[str, float] = defaultdict(float)
    for node_id, seconds in _seconds_of_tests.items():
        seconds_of_files[node_id.split("::")[0]] += seconds
    longest = sorted(seconds_of_files.items(), key=lambda item: -item[1])[:LONGEST_FILES]
    for name, seconds in longest:
        if seconds > LONG_FILE_S:
            terminalreporter.write_line(f"{name} takes {seconds:.0f} s")
    for package, seconds in sorted(_seconds.items()):
        if seconds > QUICK_BUDGET_S:
            terminalreporter.write_line(
                f"package {package}: quick tests take {seconds:.1f} s; the budget is {QUICK_BUDGET_S:g} s"
            )


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run; the header of the run prints it."""
    return SEED


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test only: the same for the same seed, whichever tests run with it."""
    return random.Random(f"{SEED}:{request.node.nodeid}")


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    """A real Apache Kafka 4.4 broker."""
    try:
        server = start_kafka(tmp_path_factory.mktemp("apache-kafka"), heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield server


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    """A real ZooKeeper."""
    try:
        server = start_zookeeper(tmp_path_factory.mktemp("zookeeper"))
    except Unavailable as missing:
        pytest.skip(f"ZooKeeper: {missing}")
    with server:
        yield server


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hbase]:
    """A real HBase with its Thrift server."""
    try:
        server = start_hbase(tmp_path_factory.mktemp("hbase"))
    except Unavailable as missing:
        pytest.skip(f"HBase: {missing}")
    with server:
        yield server
