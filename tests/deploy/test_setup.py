"""Finding Java, downloading jars: the parts that need no network."""

from pathlib import Path

import pytest

from deploy.commands import parse_seconds
from deploy.errors import OperatorError, Unavailable
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


@pytest.mark.java
def test_a_real_kafka_and_its_tools_start(apache_kafka, tmp_path):
    """Every comparison depends on this fixture."""
    from deploy.testservers.kafka import run_tool

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
