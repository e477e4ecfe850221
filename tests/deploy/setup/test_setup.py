"""Finding Java, downloading jars: the parts that need no network."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.durations import parse_seconds
from deploy.errors import OperatorError, Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.setup import jars
from deploy.setup.java import major_version


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "11.0.2-ea"', 11),
        ("command not found", None),
    ],
)
def test_the_version_of_java_is_read_from_its_banner(banner: str, version: int | None):
    """Old style and new style."""
    assert major_version(banner) == version


def test_a_changed_pom_has_another_folder_and_a_half_fetched_one_is_never_used(
    tmp_path, monkeypatch
):
    """The folder carries the pom's hash and appears whole."""
    monkeypatch.setenv("DATABUS_CACHE", str(tmp_path / "cache"))
    pom = tmp_path / "pom.xml"

    def fetch(pom: Path, folder: Path, name: str) -> None:
        if pom.read_text() == "broken":
            folder.with_suffix(".partial").mkdir(exist_ok=True)
            raise Unavailable("the line was cut")
        folder.mkdir()
        (folder / f"{pom.read_text()}.jar").touch()

    monkeypatch.setattr(jars, "_fetch", fetch)
    pom.write_text("one")
    assert [jar.name for jar in jars.jars_of(pom, "x")] == ["one.jar"]
    pom.write_text("two")
    assert [jar.name for jar in jars.jars_of(pom, "x")] == ["two.jar"]
    pom.write_text("broken")
    for _ in range(2):
        with pytest.raises(Unavailable):
            jars.jars_of(pom, "x")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1.5h", 5400), ("250ms", 0.25), ("7", 7), (" 2d ", 172800)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float):
    """With the unit last."""
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3s", "5 weeks", "1e3", "９秒"])
def test_what_is_no_duration_is_told_how_to_write_one(text: str):
    """Never a traceback."""
    with pytest.raises(OperatorError, match="write 90s"):
        parse_seconds(text)


def test_the_lock_is_whole():
    """It is installed without resolving what its packages need."""
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [str(uv), "pip", "check", "--python", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_runs_before_any_package_is_installed_imports_none():
    """With Python's own alone: without site-packages."""
    program = "import deploy.setup.first_start, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded <= {"bus", "deploy", "__main__", *sys.stdlib_module_names}


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_program_of_others_is_asked_to_end_when_we_are(is_stubborn: bool, tmp_path: Path):
    """An installer that was killed leaves a package half written; one that does not end is killed."""
    told = tmp_path / "told"
    ending = "" if is_stubborn else f"open({str(told)!r}, 'a').write(' ended'); sys.exit()"
    child = (
        "import os, signal, sys, time\n"
        f"def end(*_):\n    {ending or 'pass'}\n"
        f"signal.signal(signal.SIGTERM, end)\nopen({str(told)!r}, 'w').write(str(os.getpid()))\n"
        "while True: time.sleep(0.1)\n"
    )
    program = (
        "import signal, sys\nfrom deploy.setup import child\nchild.END_S = 1.0\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        f"child.run_child([sys.executable, '-c', {child!r}], 60, {{}})\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT_ROOT)
    deadline = time.monotonic() + 30
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) == 143
    number, *ended = told.read_text().split()
    assert bool(ended) is not is_stubborn
    with pytest.raises(ProcessLookupError):
        os.kill(int(number), 0)


@pytest.mark.java
def test_a_real_kafka_and_its_tools_start(apache_kafka, tmp_path):
    """Every comparison depends on this fixture."""
    from deploy.servers.kafka import run_tool

    made = run_tool(
        "kafka-topics",
        ["--bootstrap-server", apache_kafka.address, "--create", "--topic", "x"],
        folder=tmp_path,
    )
    assert b"Created topic x" in made.stdout, made.stderr


@pytest.mark.java
def test_a_real_zookeeper_starts(zookeeper):
    """And kazoo talks to it."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts=zookeeper.address)
    client.start(timeout=20)
    assert client.create("/here", b"x") == "/here"
    client.stop()
    client.close()
