"""The systemd units and the compose file start what `databus up` starts: the role table's roles."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.paths import PROJECT_ROOT
from deploy.roles.run import console_settings
from deploy.roles.table import (
    ALARM_STREAMS,
    MIRROR,
    PRODUCT,
    RECORDER,
    ROLES,
    broker_endpoint,
    console_endpoint,
    edge_endpoint,
)
from deploy.roles.watch_ports import watch_settings
from deploy.servers.process import free_port
from deploy.settings.composed import SECTIONS, compose, load
from deploy.settings.sources import from_environment

SYSTEMD = PROJECT_ROOT / "deploy" / "systemd"
COMPOSE = PROJECT_ROOT / "deploy" / "compose" / "compose.yaml"
OUTSIDE_PORT = 9093  # in the broker's container
OPTIONAL = (ALARM_STREAMS, MIRROR, RECORDER)  # where the settings, or an operator, want it


class Unit(configparser.ConfigParser):
    """systemd's format: keys keep their case and may repeat."""

    optionxform = staticmethod(str)  # type: ignore[assignment]


def unit(path: Path) -> Unit:
    read = Unit(strict=False, interpolation=None)
    read.read(path, encoding="utf-8")
    return read


def environment_of(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^Environment=(\w+)=(.*)$", path.read_text(), re.MULTILINE))


def services() -> dict[str, dict]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def test_there_is_a_unit_for_every_role_of_up_and_no_other():
    """And the target wants them all, but not what only some settings want."""
    names = {path.stem.removeprefix("databus-") for path in SYSTEMD.glob("databus-*.service")}
    assert names == {*PRODUCT, *OPTIONAL}
    wanted = unit(SYSTEMD / "databus.target")["Unit"]["Wants"].split()
    assert wanted == [f"databus-{name}.service" for name in PRODUCT]


@pytest.mark.parametrize("name", [*PRODUCT, *OPTIONAL])
def test_a_unit_runs_its_role_after_what_it_needs_and_gives_it_time_to_stop(name: str):
    """As the role table says."""
    read = unit(SYSTEMD / f"databus-{name}.service")
    assert read["Service"]["ExecStart"].endswith(f"databus run {name}")
    assert float(read["Service"]["TimeoutStopSec"]) == ROLES[name].stop_timeout_s
    assert read["Service"]["Restart"] == "always"
    assert read["Unit"]["StartLimitIntervalSec"] == "0", "quick failures would leave it dead"
    after = read["Unit"]["After"].split()
    assert {f"databus-{need}.service" for need in ROLES[name].needs} <= set(after)


@pytest.mark.parametrize("path", sorted(SYSTEMD.glob("*.service")), ids=lambda path: path.stem)
def test_the_variables_of_a_unit_are_settings_that_exist(path: Path):
    """A misspelt one would stop the role."""
    environment = {k: v for k, v in environment_of(path).items() if k != "DATABUS_CONFIG"}
    assert load(environment=environment).site.data_dir == "/var/lib/databus"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_itself_accepts_the_units(tmp_path: Path):
    """With the command replaced by one that exists on this machine."""
    for path in SYSTEMD.iterdir():
        text = path.read_text().replace("/opt/databus/databus run", "/bin/true run")
        text = text.replace("User=databus\nGroup=databus\n", "")
        (tmp_path / path.name).write_text(text)
    units = map(str, sorted(tmp_path.iterdir()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *units],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "databus" in line]
    assert done.returncode == 0, done.stderr
    assert ours == []


def test_the_compose_file_runs_every_role_of_up_with_its_needs_and_its_time_to_stop():
    """As the role table says."""
    found = services()
    assert set(found) == {*PRODUCT, *OPTIONAL}
    assert {name for name in found if "profiles" in found[name]} == set(OPTIONAL)
    for name, service in found.items():
        assert service["command"] == ["run", name]
        assert set(service.get("depends_on", {})) == set(ROLES[name].needs)
        assert service["stop_grace_period"] == f"{ROLES[name].stop_timeout_s:g}s"
        assert all("healthcheck" in found[need] for need in ROLES[name].needs)


def test_the_compose_file_gives_settings_that_exist_and_publishes_the_ports_of_the_product():
    """Where the one variable says, which by default is the machine itself, and records name their
    pictures there too."""
    address = "${ADDRESS:-127.0.0.1}"
    for name, service in services().items():
        environment = service["environment"] | {"DATABUS_STREAMS_DRIVERS": "2"}
        settings = compose(from_environment(environment, SECTIONS), base=Path("/data"))
        assert settings.pictures.public_url == f"http://{address}:{edge_endpoint(settings).port}"
        endpoint = ROLES[name].endpoint
        ports = service.get("ports", [])
        if endpoint is None:
            assert ports == []
        else:
            port = endpoint(settings).port
            inside = OUTSIDE_PORT if name == "broker" else port
            assert ports == [f"{address}:{port}:{inside}"]
            assert str(port) in service["healthcheck"]["test"][-1]


def broker_properties(address: str, moved: dict[str, str]) -> dict[str, str]:
    """Of the compose file's broker, with ports of this machine instead of the containers'."""
    found = services()["broker"]["environment"]
    properties = {
        name.removeprefix("DATABUS_BROKER_").lower().replace("_", "."): str(value)
        for name, value in found.items() if name.startswith("DATABUS_BROKER_")
    }  # fmt: skip
    for before, after in {"${ADDRESS:-127.0.0.1}": address, **moved}.items():
        properties = {name: value.replace(before, after) for name, value in properties.items()}
    return properties


@pytest.mark.slow
def test_a_camera_outside_reaches_the_broker_of_the_compose_file_by_the_one_variable(
    tmp_path: Path,
) -> None:
    """It stayed on the loopback and answered with the address `broker:9092`, which nobody outside
    the containers can resolve. Here the published port is the container's: no engine is needed."""
    inner, outer = free_port(), free_port()
    moved = {
        "0.0.0.0:9092": f"127.0.0.1:{inner}", "0.0.0.0:9093": f"127.0.0.1:{outer}",
        "127.0.0.2:9092": f"127.0.0.1:{outer}", "broker:9092": f"broker:{inner}",
    }  # fmt: skip
    properties = broker_properties("127.0.0.2", moved)
    command = [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path / "data")]
    for name, value in {**properties, "metrics.port": "0"}.items():
        command += ["--set", f"broker.{name}={value}"]
    log = tmp_path / "broker.log"
    with log.open("w") as file:
        broker = subprocess.Popen(
            [*command, "run", "broker"], cwd=PROJECT_ROOT, stdout=file, stderr=file
        )
    try:
        reached = {port: brokers_told_at(port, broker, log) for port in (inner, outer)}
    finally:
        broker.terminate()
        broker.wait(60)
    assert reached == {inner: [f"broker:{inner}"], outer: [f"127.0.0.1:{outer}"]}


def brokers_told_at(port: int, broker: subprocess.Popen[bytes], log: Path) -> list[str]:
    """The addresses under which the brokers can be reached, as a client of this port hears."""
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    for _ in range(60):
        assert broker.poll() is None, log.read_text()
        try:
            found = client.list_topics(timeout=1).brokers.values()
        except KafkaException:
            continue
        return [f"{one.host}:{one.port}" for one in found]
    raise AssertionError(log.read_text())


def test_in_containers_the_watch_asks_each_process_by_its_name():
    """On the loopback of its own container it found neither edge nor console nor a driver."""
    for name in ("watch", "console"):
        environment = services()[name]["environment"] | {"DATABUS_STREAMS_DRIVERS": "2"}
        settings = compose(from_environment(environment, SECTIONS), base=Path("/data"))
        asked = watch_settings(settings).health
        pages = {"edge", "console", "dispatcher", "streams", "streams-watchlist"}
        assert {name: urlsplit(url).hostname for name, url in asked.items() if name in pages} == {
            name: name for name in pages
        }
        assert urlsplit(console_settings(settings).health["edge"]).hostname == "edge"


def test_without_any_setting_every_listener_is_on_the_loopback():
    """Design: addresses and accounts."""
    settings = load(environment={})
    for endpoint in (broker_endpoint, edge_endpoint, console_endpoint):
        assert endpoint(settings).host == "127.0.0.1"
