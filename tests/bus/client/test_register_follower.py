"""The register on the bus, with a real broker and the real command."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bus.client.register_follower import RegisterFollower
from bus.contracts.register import Checkpoint, Device, District, Register, encode_register
from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands
from deploy.servers.databus import RunningBroker, start_broker

pytestmark = pytest.mark.slow

DEVICES, EDITS, READ_S = 10_000, 1_000, 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("register"))
    yield running
    running.stop()


@pytest.fixture
def command(broker: RunningBroker, tmp_path: Path) -> Callable[..., Any]:
    """`databus register WORDS` → its result."""
    return _command(broker, tmp_path)


def _command(broker: RunningBroker, folder: Path) -> Callable[..., Any]:
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    settings = SimpleNamespace(
        bus=BusSettings(bootstrap_servers=broker.bootstrap),
        site=SiteSettings(data_dir=str(folder)),
    )

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["register", *words], obj=settings)

    return run


def city(devices: int) -> Register:
    return Register(
        site="city",
        districts=(District(district_id="west", name="西", name_en="West"),),
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{n}", name=f"口{n}", name_en=f"Crossing {n}",
                       district_id="west", latitude=30.0, longitude=120.0)
            for n in range(devices // 5)
        ),
        devices=tuple(
            Device(camera_ip=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", kind="vehicle",
                   checkpoint_id=f"c{n // 5}")
            for n in range(devices)
        ),
    )  # fmt: skip


def test_a_start_reads_ten_thousand_devices_and_a_thousand_edits(
    broker: RunningBroker, command: Callable[..., Any], tmp_path: Path
) -> None:
    """Import, an import of what differs, and what a process sees then; the file before is not it."""
    whole, moved = tmp_path / "whole.json", tmp_path / "moved.csv"
    whole.write_bytes(encode_register(city(DEVICES)))
    done = json.loads(command("import", str(whole), "--json").output)
    assert len(done["changes"]) == DEVICES + DEVICES // 5 + 2
    lines = ["kind,id,checkpoint,device_kind"]
    lines += [f"device,10.0.{n >> 8}.{n & 255},c0,face" for n in range(EDITS)]
    moved.write_text("\n".join(lines))
    done = json.loads(command("import", str(moved), "--json").output)
    assert (len(done["changes"]), done["written"]) == (EDITS, True)
    assert json.loads(command("import", str(moved), "--json").output)["changes"] == []

    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    began = time.monotonic()
    with closing(RegisterFollower(bus, whole).start()) as follower:
        assert follower.wait_until_read(READ_S)
        register = follower.read()
        print(f"{len(follower.entries())} entries read after {time.monotonic() - began:.2f} s")
        assert (len(register.devices), register.site) == (DEVICES, "city")
        assert {register.device_by_ip[f"10.0.{n >> 8}.{n & 255}"].kind for n in range(EDITS)} == {
            "face"
        }
        version = follower.version
        edited = command("edit", "device", "10.0.0.1", "--checkpoint", "c7")
        assert edited.exit_code == 0, edited.output
        deadline = time.monotonic() + READ_S
        while follower.read().device_by_ip["10.0.0.1"].checkpoint_id != "c7":
            assert time.monotonic() < deadline
            follower.wait_until_read(0.01)
            time.sleep(0.01)
        assert follower.version != version


def test_nothing_is_written_if_one_line_is_wrong(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    """And a removal that leaves a device without its checkpoint is refused."""
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text(
        "kind,id,name,district,checkpoint,latitude,longitude\n"
        "district,d,D,,,,\ncheckpoint,k1,K,d,,30,120\ndevice,cam,,,k1,,\n"
    )
    assert command("import", str(good), "--replace").exit_code == 0
    bad.write_text("kind,id,checkpoint\ndevice,cam2,k1\ndevice,cam3,nowhere\n")
    refused = command("import", str(bad))
    assert refused.exit_code == 1
    assert "there is no checkpoint 'nowhere'" in refused.output
    assert "没有卡口" in refused.output
    removed = command("edit", "checkpoint", "k1", "--remove")
    assert removed.exit_code == 1
    assert "device/cam: there is no checkpoint 'k1'" in removed.output
    exported = command("export", "-", "--format", "csv")
    assert "cam2" not in exported.output
    assert "device,cam,,,,k1,,,vehicle,," in exported.output
    for format_ in ("geojson", "json"):
        again = tmp_path / f"again.{format_}"
        assert command("export", str(again)).exit_code == 0
        planned = json.loads(command("import", str(again), "--replace", "--json").output)
        assert planned["changes"] == []


def test_the_directions_of_lanes_are_edited_and_one_that_is_none_is_told(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    """In either language; one for each lane."""
    good = tmp_path / "good.csv"
    good.write_text(
        "kind,id,name,district,checkpoint,latitude,longitude\n"
        "district,d,D,,,,\ncheckpoint,k1,K,d,,30,120\ndevice,cam,,,k1,,\n"
    )
    assert command("import", str(good), "--replace").exit_code == 0
    lanes = ("edit", "device", "cam", "--lanes", "1;2;3")
    few = command(*lanes, "--headings", "north;south")
    assert (few.exit_code, "2 headings of 3 lanes" in few.output) == (1, True)
    unknown = command(*lanes, "--headings", "north;up;south")
    assert (unknown.exit_code, "'up' is none of north" in unknown.output) == (2, True)
    assert command(*lanes, "--headings", "n;由南向北;south").exit_code == 0
    assert "1;2;3,north;north;south" in command("export", "-", "--format", "csv").output


def test_an_empty_topic_leaves_the_file_in_force_and_an_unreachable_bus_too(tmp_path: Path) -> None:
    path = tmp_path / "register.json"
    path.write_bytes(encode_register(city(5)))
    away = RegisterFollower(BusSettings(bootstrap_servers="127.0.0.1:1"), path).start()
    assert len(away.read().devices) == 5
    assert away.version
    assert not away.wait_until_read(0.1)
    away.close()


def test_the_first_edit_of_a_site_with_a_file_brings_the_whole_file_along(tmp_path: Path) -> None:
    """Else one entry on the topic would put all others out of force."""
    broker = start_broker(tmp_path / "broker")
    try:
        run = _command(broker, tmp_path)
        (tmp_path / "register.json").write_bytes(encode_register(city(10)))
        assert run("export", "-", "--format", "csv").output.count("\ndevice,") == 10
        done = json.loads(run("edit", "device", "10.0.0.9", "--remove", "--json").output)
        assert len(done["changes"]) == 1 + 1 + 2 + 9
        bus = BusSettings(bootstrap_servers=broker.bootstrap)
        with closing(RegisterFollower(bus, tmp_path / "register.json").start()) as follower:
            assert follower.wait_until_read(READ_S)
            assert len(follower.read().devices) == 9
    finally:
        broker.stop()
