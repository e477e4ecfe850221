"""The supervisor with real child processes."""

import asyncio
import os
import signal
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from bus.runtime.tasks import FAILED_STATUS
from deploy.errors import OperatorError
from deploy.product.status import ended_with, roles_state
from deploy.servers.process import free_port
from deploy.settings.composed import load
from deploy.supervisor.child import Child, RoleState, ServiceEndpoint
from deploy.supervisor.restart import RestartPolicy
from deploy.supervisor.state_file import is_held, read_state, rotate_log, supervised
from deploy.supervisor.supervisor import Supervisor, check_ports

QUICK = RestartPolicy(first_delay_s=0.01, longest_delay_s=0.02, deaths_allowed=3)
LIMIT_S = 20

SLEEPER = "import signal, time; signal.pause()"


def child(name: str, program: str, **more: object) -> Child:
    command = (sys.executable, "-c", textwrap.dedent(program))
    return Child(name=name, command=command, environment=os.environ, **more)  # type: ignore[arg-type]


def alive(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def state_of(supervisor: Supervisor, name: str) -> RoleState:
    return supervisor.children[name].state


async def test_a_killed_process_is_started_again_and_the_restart_is_on_record(tmp_path: Path):
    """kill -9 from outside: a new process, one restart counted and written down."""
    supervisor = Supervisor([child("one", SLEEPER)], tmp_path, policy=QUICK)
    await supervisor.start()
    assert await supervisor.wait_until(lambda: supervisor.all_ready, LIMIT_S)
    first = supervisor.children["one"].pid
    os.kill(first, signal.SIGKILL)
    assert await supervisor.wait_until(
        lambda: supervisor.children["one"].pid not in (None, first), LIMIT_S
    )
    assert supervisor.restarts == 1
    await supervisor.stop()
    assert "exit -9; restart in" in (tmp_path / "log" / "supervisor.log").read_text()


async def test_a_process_that_cannot_live_is_given_up_after_its_bound(tmp_path: Path):
    """Four deaths with three allowed."""
    supervisor = Supervisor([child("bad", "raise SystemExit(3)")], tmp_path, policy=QUICK)
    await supervisor.start()
    await supervisor.wait_until(lambda: False, LIMIT_S)
    assert supervisor.failed == ["bad"]
    assert supervisor.children["bad"].last_exit == 3
    assert len(supervisor.children["bad"].deaths_s) == 4
    await supervisor.stop()


async def test_a_role_starts_only_when_the_roles_it_needs_answer(tmp_path: Path):
    """The second child waits for the first one's port."""
    port, gate = free_port(), tmp_path / "gate"
    server = f"""
        import pathlib, socket, time
        while not pathlib.Path({str(gate)!r}).exists():
            time.sleep(0.01)
        listener = socket.create_server(("127.0.0.1", {port}))
        while True:
            listener.accept()
    """
    first = child("first", server, endpoint=ServiceEndpoint("127.0.0.1", port, "first.port"))
    supervisor = Supervisor([first, child("second", SLEEPER, needs=("first",))], tmp_path)
    await supervisor.start()
    assert await supervisor.wait_until(
        lambda: state_of(supervisor, "first") is RoleState.STARTING, LIMIT_S
    )
    await asyncio.sleep(0.3)
    assert state_of(supervisor, "second") is RoleState.WAITING
    gate.touch()
    assert await supervisor.wait_until(lambda: supervisor.all_ready, LIMIT_S)
    await supervisor.stop()


async def test_stopping_goes_in_the_reverse_order_and_leaves_nothing_behind(tmp_path: Path):
    """Each child records its stop request; grandchildren end with their group."""
    told, grandchild = tmp_path / "told", tmp_path / "grandchild"
    program = """
        import pathlib, signal, subprocess, sys
        def stop(*_):
            with open({told!r}, "a") as out:
                out.write({name!r} + " ")
            sys.exit(0)
        signal.signal(signal.SIGTERM, stop)
        with open({grandchild!r}, "a") as out:
            out.write(str(subprocess.Popen(["sleep", "600"]).pid) + " ")
        while True:
            signal.pause()
    """
    names = ("a", "b", "c")
    supervisor = Supervisor(
        [
            child(name, program.format(told=str(told), grandchild=str(grandchild), name=name))
            for name in names
        ],
        tmp_path,
    )
    await supervisor.start()
    assert await supervisor.wait_until(
        lambda: grandchild.exists() and len(grandchild.read_text().split()) == 3, LIMIT_S
    )
    await supervisor.stop()
    assert told.read_text().split() == ["c", "b", "a"]
    left = [process for pid in grandchild.read_text().split() if (process := alive(int(pid)))]
    assert not psutil.wait_procs(left, timeout=LIMIT_S)[1]


async def test_a_process_that_ignores_the_request_to_stop_is_killed_at_its_limit(tmp_path: Path):
    """SIGTERM ignored, SIGKILL after the limit, said in the record."""
    ready = tmp_path / "ready"
    stubborn = f"""
        import pathlib, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path({str(ready)!r}).touch()
        while True:
            signal.pause()
    """
    supervisor = Supervisor([child("mule", stubborn, stop_timeout_s=0.2)], tmp_path)
    await supervisor.start()
    assert await supervisor.wait_until(ready.exists, LIMIT_S)
    await supervisor.stop()
    assert supervisor.children["mule"].process.returncode == -signal.SIGKILL
    assert "does not stop within 0.2 s" in (tmp_path / "log" / "supervisor.log").read_text()


async def test_status_and_console_read_the_supervisor_and_all_its_processes_at_one_place(
    tmp_path: Path,
):
    """They show the supervisor itself, process ids, restarts and start times. They show nothing of
    a dead supervisor; `status` then says that the product is stopped."""
    supervisor = Supervisor([child("edge", SLEEPER), child("broker-2", SLEEPER)], tmp_path)
    settings = load(None, [f"site.data_dir={tmp_path}"])
    await supervisor.start()
    assert await supervisor.wait_until(lambda: supervisor.all_ready, LIMIT_S)
    found = {one.role: one for one in supervised(tmp_path)}
    assert list(found) == ["supervisor", "edge", "broker-2"]
    assert found["supervisor"].pid == os.getpid()
    for name, state in supervisor.children.items():
        told = found[name]
        assert (told.state, told.pid, told.restarts) == ("running", state.pid, 0)
        assert told.since_ms == state.since_ms
    rows = roles_state(settings)
    assert [(r["role"], r["pid"], r["since_ms"]) for r in rows] == [
        (one.role, one.pid, one.since_ms) for one in found.values()
    ]
    assert all(row["what"] for row in rows)
    await supervisor.stop()
    assert supervised(tmp_path) == []
    assert {row["state"] for row in roles_state(settings)} == {"stopped"}


async def test_two_supervisors_on_one_data_directory_are_refused(tmp_path: Path):
    """The second names the first one's process; the lock ends with the first."""
    first, second = Supervisor([child("x", SLEEPER)], tmp_path), Supervisor([], tmp_path)
    await first.start()
    assert await first.wait_until(lambda: first.all_ready, LIMIT_S)
    assert is_held(tmp_path)
    with pytest.raises(OperatorError, match=f"in use by process {os.getpid()}"):
        await second.start()
    assert read_state(tmp_path)["roles"]["x"]["state"] == "running"
    await first.stop()
    assert not is_held(tmp_path)
    assert read_state(tmp_path) is None


async def test_a_taken_port_is_an_error_that_names_the_owner_and_the_remedy(tmp_path: Path):
    """Before anything is started."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    taken = child("edge", SLEEPER, endpoint=ServiceEndpoint("127.0.0.1", port, "edge.port"))
    with pytest.raises(
        OperatorError, match=rf"{port} for edge is taken.*process {os.getpid()}.*--set edge\.port"
    ):
        check_ports([taken])
    server.close()
    await server.wait_closed()
    check_ports([taken])


def test_a_log_past_its_limit_keeps_one_older_generation(tmp_path: Path):
    """The writer's open file continues at the start of the same file."""
    path = tmp_path / "edge.log"
    with open(path, "ab", buffering=0) as log:
        log.write(b"x" * 100)
        rotate_log(path, limit_bytes=200)
        assert path.stat().st_size == 100
        log.write(b"y" * 101)
        rotate_log(path, limit_bytes=200)
        log.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.with_suffix(".log.1").stat().st_size == 201


async def test_a_role_without_an_address_is_ready_when_its_log_says_so(tmp_path: Path):
    """What an earlier process wrote does not count."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "jobs.log").write_text("jobs: ready\n")
    gate = tmp_path / "gate"
    program = f"""
        import pathlib, signal, time
        while not pathlib.Path({str(gate)!r}).exists():
            time.sleep(0.01)
        print("jobs: ready", flush=True)
        signal.pause()
    """
    supervisor = Supervisor([child("jobs", program, ready_line="jobs: ready")], tmp_path)
    await supervisor.start()
    assert await supervisor.wait_until(
        lambda: state_of(supervisor, "jobs") is RoleState.STARTING, LIMIT_S
    )
    await asyncio.sleep(0.3)
    assert state_of(supervisor, "jobs") is RoleState.STARTING
    gate.touch()
    assert await supervisor.wait_until(lambda: supervisor.all_ready, LIMIT_S)
    await supervisor.stop()


async def test_a_process_whose_background_task_failed_is_started_again(tmp_path: Path):
    """It ends itself with a special status; its log has the traceback."""
    been = tmp_path / "been"
    program = f"""
        import asyncio, logging, pathlib
        from bus.runtime import tasks
        from bus.errors import check
        logging.basicConfig()
        been = pathlib.Path({str(been)!r})
        async def work():
            check(been.exists(), "planted")
            print("ready", flush=True)
            await asyncio.Event().wait()
        async def main():
            kept = tasks.spawn(work(), name="work")
            await asyncio.sleep(0)
            been.touch()
            await asyncio.Event().wait()
        tasks.run(main())
    """
    supervisor = Supervisor([child("fragile", program, ready_line="ready")], tmp_path)
    await supervisor.start()
    assert await supervisor.wait_until(lambda: supervisor.all_ready, LIMIT_S)
    assert (supervisor.restarts, supervisor.children["fragile"].last_exit) == (1, FAILED_STATUS)
    await supervisor.stop()
    assert "CheckFailed: planted" in (tmp_path / "log" / "fragile.log").read_text()


def test_status_says_what_a_dead_process_ended_with() -> None:
    """It said how often a role was restarted, and not why."""
    assert [ended_with(one) for one in (None, 0, 70, -9, -15, -250)] == [
        "", "status 0", "status 70", "SIGKILL", "SIGTERM", "signal 250",
    ]  # fmt: skip
