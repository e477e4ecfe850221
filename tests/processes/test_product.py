"""One story of the whole product: three starts on one data directory.

The first is a demo at 500 records/s in which every process is killed; the second a demo on the same
data; the third `up` without the city, which then gets bad records, films and a full disk. Each
start is a fixture that records what it saw, so that each test below can run alone.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import films
import httpx
import numpy as np
import pytest
from bad_records import (
    CAMERA,
    Bad,
    bad_records,
    counters_of,
    encoded,
    kept,
    produce,
    rejected_since,
)
from garbage import throw_garbage
from running_product import Demo, RunningProduct, eventually, leaves_nothing, stored_in

from bus.contracts.headers import Reason
from deploy.reconcile.balance import Reconciliation
from deploy.reconcile.drain import stages_of_roles
from deploy.servers.small_disk import CannotMount, ResizableDisk
from deploy.settings.composed import load
from deploy.supervisor.state_file import is_held
from ingest.store.port import PageRequest, Query, RejectedRow

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]
RATE = 500
STORE_BYTES = 768 << 20
SILENT = "10.99.0.8"  # a device that never sends its counters
BLOWS = (("broker",), ("streams",), ("console",), ("edge", "dispatcher", "city"))


@dataclass
class ProductRun:
    """The observations of one start."""

    account: dict[str, Any] = field(default_factory=dict)
    seconds_to_recover: dict[str, float] = field(default_factory=dict)
    stored_before_blow: list[int] = field(default_factory=list)
    records_per_second: float = 0
    pids: list[int] = field(default_factory=list)
    living: Reconciliation | None = None  # taken during the flow of records
    pids_harmed_by_garbage: set[int] = field(default_factory=set)
    refused: list[subprocess.CompletedProcess[str]] = field(default_factory=list)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> RunningProduct:
    return RunningProduct(tmp_path_factory.mktemp("product") / "data")


@pytest.fixture(scope="module")
def store_disk(place: RunningProduct) -> Iterator[ResizableDisk | CannotMount]:
    """A separate disk for the record store, if mounting is allowed."""
    try:
        disk = ResizableDisk(place.folder / "store", STORE_BYTES)
    except CannotMount as why:
        yield why
        return
    yield disk
    disk.unmount()


def remove_leftovers(folder: Path) -> None:
    """Removes everything but mounted disks: a rerun must not continue the previous run's
    account."""
    for child in sorted(folder.iterdir()) if folder.exists() else ():
        if child.is_mount():
            remove_leftovers(child)
        elif child.is_dir():
            shutil.rmtree(child)
        else:
            child.unlink()


@pytest.fixture(scope="module")
def first(place: RunningProduct, store_disk: object, seed: int) -> ProductRun:
    """Sends garbage to the ports, kills every process while records flow, then presses Ctrl-C."""
    story, dice = ProductRun(), random.Random(seed)
    remove_leftovers(place.folder)
    with Demo(place, "--rate", str(RATE)) as demo:
        demo.runs()
        began, sent = time.monotonic(), place.sent()
        pids = place.pids()
        half_sent = [throw_garbage(port, dice) for port in (place.broker, place.edge)]
        demo.flows("records are stored beside the garbage")
        story.pids_harmed_by_garbage = set(pids) - set(place.pids())
        for blow in BLOWS:
            story.stored_before_blow.append(place.stored())
            story.seconds_to_recover[" ".join(blow)] = demo.kill(blow)
            demo.flows(f"records are stored after the death of {blow}")
        story.records_per_second = (place.sent() - sent) / (time.monotonic() - began)
        story.pids = place.pids()
        story.living = place.account()
        story.account = demo.ctrl_c()
    for connection in itertools.chain(*half_sent):
        connection.close()
    print(story.seconds_to_recover, story.records_per_second)
    return story


@pytest.fixture(scope="module")
def second(place: RunningProduct, first: ProductRun) -> ProductRun:
    """Runs a few seconds more, during which another start is tried."""
    story = ProductRun()
    with Demo(place, "--for", "10s", "--rate", "60") as demo:
        demo.wait_until(lambda: is_held(place.folder), "the demo holds the data directory")
        story.refused = [place.databus(verb) for verb in ("demo", "up")]
        story.account = demo.end()
    return story


@pytest.fixture(scope="module")
def product(place: RunningProduct, second: ProductRun) -> Iterator[RunningProduct]:
    """Starts the product without the city, in the background."""
    up = place.databus("up", "--detach")
    try:
        assert up.returncode == 0, up.stderr + place.logs_end
        assert "all roles run" in up.stdout
        assert "databus down" in up.stdout
        yield place
    finally:
        place.databus("down")


def test_the_account_balances_after_kill_9_of_every_process_at_500_records_a_second(
    first: ProductRun,
) -> None:
    """Each was killed during the flow and restarted; `Demo.end` has checked balance and exit status
    0."""
    assert first.account["restarts"] >= sum(map(len, BLOWS))
    assert first.stored_before_blow == sorted(set(first.stored_before_blow))
    assert first.records_per_second > 0.6 * RATE, "the flow is less dense while the city is dead"
    vehicles = next(flow for flow in first.account["flows"] if flow["kind"] == "data.vehicle")
    assert vehicles["rejected"], "the city's misfortunes"
    assert first.account["alarms_raised"] > 0


def test_an_account_of_the_living_bus_balances_too(first: ProductRun) -> None:
    """Regression: the account was "7 off" because its parts were read at different times."""
    assert first.living is not None
    assert (first.living.is_alive, first.living.faults) == (True, [])
    assert sum(flow.stored for flow in first.living.flows) > 0


def test_garbage_at_the_ports_harms_nobody(first: ProductRun) -> None:
    """No process died of it; the account has shown that no record was affected."""
    assert first.pids_harmed_by_garbage == set()


def test_ctrl_c_leaves_no_process_behind(place: RunningProduct, first: ProductRun, second: ProductRun) -> None:
    """No process of the first start is left, although the second has run since."""
    assert first.pids
    assert [pid for pid in first.pids if Path(f"/proc/{pid}").exists()] == []


def test_a_second_start_goes_on_and_the_account_covers_both(first: ProductRun, second: ProductRun) -> None:
    """No record is missing or counted twice."""
    assert stored_in(second.account) > stored_in(first.account)
    assert second.account["alarms_raised"] >= first.account["alarms_raised"]
    assert second.account["restarts"] == 0


def test_two_starts_on_one_data_directory_are_refused(place: RunningProduct, second: ProductRun) -> None:
    """The second start names the owner and the remedy; the first continues."""
    for refused in second.refused:
        assert refused.returncode == 1
        assert f"{place.folder} is in use by process" in refused.stderr
        assert "databus down" in refused.stderr


def test_status_shows_every_role_running_and_what_waits_for_it(product: RunningProduct) -> None:
    """Each stage shows a number, none "unknown", while everything runs."""
    [roles] = product.lines("status")
    behind = {role["role"]: role["behind"] for role in roles if role["behind"]}
    places = {name: set(found) for name, found in behind.items()}
    expected = stages_of_roles(load(None, product.flags))
    assert places == {name: set(found) for name, found in expected.items()}
    assert all(count is not None for found in behind.values() for count in found.values())
    assert {role["state"] for role in roles} == {"running"}
    assert all(Path(f"/proc/{role['pid']}").exists() for role in roles)


def test_bad_records_are_kept_with_their_reason_and_counted(product: RunningProduct) -> None:
    """Every reason is tried through the edge and directly on the bus; none of it is a stored
    record."""
    before = product.counts()
    posted = list(bad_records("over the edge"))
    produced = [bad for bad in bad_records("over the bus") if bad.reason is not Reason.TOO_LARGE]
    assert {bad.reason for bad in posted} == set(Reason) - {Reason.REFUSED}  # that is no record
    with httpx.Client(base_url=product.edge_url, trust_env=False) as edge:
        for bad in posted:
            answer = edge.post(f"/v1/records/{bad.kind}", content=bad.body)
            assert answer.status_code == 422
            assert [item["reason"] for item in answer.json()["rejected"]] == [bad.reason.value]
        counters = counters_of(posted + produced)
        edge.post("/v1/counters", json=counters).raise_for_status()
    produce(product.bootstrap, produced)
    wanted = Counter((bad.kind, bad.reason.value) for bad in posted + produced)
    eventually(lambda: rejected_since(before, product.counts()) == wanted, lambda: product.logs_end)
    for bad in posted + produced:
        assert kept(bad) in {row.body for row in _rejected(product, bad)}, bad.reason
    with product.records() as reader:
        assert reader.count(Query(camera_ip=CAMERA)) == 0
    eventually(lambda: product.account().balanced, lambda: str(product.account().faults))


@pytest.mark.rotates("films")
@pytest.mark.parametrize("film", [films.yard, films.street], ids=lambda film: film.__name__)
def test_people_of_a_real_film_are_listed_and_their_pictures_open(
    product: RunningProduct, film: Callable[[], Path]
) -> None:
    """Covers the whole film, from its first frame over bus and store to a valid JPEG."""
    try:
        path = film()
    except films.NoFilm as why:
        pytest.skip(str(why))
    checkpoint = f"330191#8#{path.stem}#0"
    looks = ("--looks", "5")  # in a hand-held film each person is visible only briefly
    [summary] = product.lines("recognise", str(path), "--checkpoint", checkpoint, *looks)
    sent = summary["sent"]["video"]
    query = Query(checkpoint_id=checkpoint)
    eventually(lambda: _count(product, query) == sum(summary["sent"].values()), lambda: product.logs_end)
    listed = {
        kind: product.lines(
            "records", "--kind", kind, "--checkpoint", checkpoint, f"--limit={sent}"
        )
        for kind in ("person", "mover")
    }
    assert sum(map(len, listed.values())) == sent
    assert listed["person"], summary
    for record in (*listed["person"], *listed["mover"]):
        answer = httpx.get(record["picture_url"], trust_env=False)
        assert answer.status_code == 200
        picture = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None
        assert min(picture.shape[:2]) > 8


def test_a_full_disk_of_the_store_is_waited_for(
    product: RunningProduct, store_disk: ResizableDisk | CannotMount
) -> None:
    """The edge still answers 200; accepted records are stored once when there is room again."""
    if isinstance(store_disk, CannotMount):
        pytest.skip(f"a full disk needs a file system of its own: {store_disk}")
    stored, log = product.stored(), product.folder / "log" / "streams.log"
    marked = log.stat().st_size
    store_disk.leave(free_bytes=0)
    filler = "x" * 5000  # more than the free pages inside SQLite's files
    records = [encoded(f"full-{n}", 垫=filler, 抓拍设备地址=SILENT) for n in range(2000)]
    answer = httpx.post(
        f"{product.edge_url}/v1/records/vehicle", content=b"\n".join(records), timeout=30,
        trust_env=False,
    )  # fmt: skip
    assert answer.json()["accepted"] == len(records)
    eventually(lambda: "is full" in _since(log, marked), lambda: _since(log, marked))
    assert product.stored() < stored + len(records)
    store_disk.resize(STORE_BYTES)
    eventually(lambda: product.stored() == stored + len(records), lambda: product.logs_end)
    assert product.role("streams")["state"] == "running"
    eventually(lambda: product.account().balanced, lambda: str(product.account().faults))


def test_down_stops_everything_and_a_second_down_says_so(product: RunningProduct) -> None:
    """It ends the story with the account of all three starts; no process is left."""
    [account] = product.lines("account")
    assert account["balanced"], account["faults"]
    pids = product.pids()
    assert product.databus("down").stdout.strip() == "stopped"
    assert leaves_nothing(product, pids)
    assert product.databus("down").stdout.strip() == "nothing runs on this data directory"


def _rejected(place: RunningProduct, bad: Bad) -> list[RejectedRow]:
    """The newest rejected record of its kind and reason."""
    with place.records() as reader:
        return reader.rejected(kind=bad.kind, reason=bad.reason.value, page=PageRequest(limit=50))[0]


def _count(place: RunningProduct, query: Query) -> int:
    with place.records() as reader:
        return reader.count(query)


def _since(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")
